import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import type { Test } from 'tap'
import { parseRecord, type RunRecord } from '../../../bench/record/record.ts'
import { usherProgram } from '../../support/usher-program.ts'

/** What the build makes; `npm test` builds first. */

export interface BenchRun {
  readonly child: ChildProcess
  /** Where it was told to write. */
  readonly output: string
  readonly ended: Promise<{ code: number | null; stdout: string; stderr: string }>
  /** What it has said so far about where it is. */
  readonly progress: () => string
}

/** Starts `usher bench`; ended with the test. */
export const startBench = (t: Test, ...args: readonly string[]): BenchRun => {
  const output = mkdtempSync(join(tmpdir(), 'bench-test-'))
  const argv = [usherProgram, 'bench', '--output', output, ...args]
  const child = spawn(process.execPath, argv, { stdio: ['ignore', 'pipe', 'pipe'] })
  let progress = ''
  child.stderr.on('data', (chunk: Buffer) => {
    progress += chunk.toString()
  })
  const exited = new Promise<number | null>(resolve => child.once('exit', resolve))
  t.teardown(async () => {
    child.kill('SIGTERM')
    await exited
    rmSync(output, { recursive: true, force: true })
  })
  const ended = (async () => {
    const stdout = await text(child.stdout)
    return { code: await exited, stdout, stderr: progress }
  })()
  return { child, output, ended, progress: () => progress }
}

/** The figures that it wrote. */
export const recordIn = (folder: string): RunRecord => {
  const name = readdirSync(folder).find(file => file.endsWith('.json')) ?? ''
  return parseRecord(readFileSync(join(folder, name), 'utf8'), name)
}
