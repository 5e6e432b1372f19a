import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import type { SandboxKind } from '../../../bench/sandbox/sandbox.ts'
import { typescript } from '../../support/typescript.ts'
import { until } from '../../support/until.ts'

const program = fileURLToPath(new URL('./sandbox-program.ts', import.meta.url))

/** A sandbox-program that runs, with what it has written so far. */
export interface ProgramRun {
  readonly outer: ChildProcessByStdio<null, Readable, Readable>
  readonly lines: readonly unknown[]
  readonly errors: () => string
  /** Of this run, the outer one included: process ids as this test sees them. */
  readonly pids: () => readonly number[]
  /** Waits for a line of its output. */
  says(line: unknown): Promise<void>
  /** Waits for its end, and gives its exit code. */
  code(): Promise<number | null>
}

/** Starts sandbox-program in a sandbox of this kind; it is ended with the test at the latest. */
export const startProgram = (
  kind: SandboxKind | '',
  job: string,
  inOwnGroup = false,
): ProgramRun => {
  const unique = `topology-test-${process.pid}-${randomBytes(6).toString('hex')}`
  // With NODE_OPTIONS the test runner would have signal handlers of its own in there.
  const node = ['-u', 'NODE_OPTIONS', process.execPath, typescript]
  const outer = spawn('env', [...node, program, kind, unique, job], {
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: inOwnGroup,
  })
  t.teardown(() => outer.kill('SIGKILL'))
  const ended = once(outer, 'close') as Promise<[number | null]>
  let out = ''
  let errors = ''
  outer.stdout.setEncoding('utf8').on('data', (text: string) => (out += text))
  outer.stderr.setEncoding('utf8').on('data', (text: string) => (errors += text))
  const run = {
    outer,
    get lines(): readonly unknown[] {
      const whole = out.split('\n').slice(0, -1)
      return whole.map(line => JSON.parse(line) as unknown)
    },
    errors: () => errors,
    pids: () => pidsWith(unique),
    says: (line: unknown) =>
      until(`it says ${String(line)}: ${errors}`, () => run.lines.includes(line)),
    code: async () => (await ended)[0],
  }
  return run
}

const pidsWith = (argument: string): readonly number[] =>
  readdirSync('/proc')
    .map(Number)
    .filter(pid => Number.isInteger(pid) && commandLine(pid).includes(argument))

const commandLine = (pid: number): string => {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
  } catch {
    return ''
  }
}
