import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Test } from 'tap'
import { commandLines } from '../../../src/cli/completion/vocabulary.ts'

const execute = promisify(execFile)

/** A folder with a script, two files and a folder to complete. */
export const folderWith = async (
  t: Test,
  script: (lines: ReturnType<typeof commandLines>) => string,
): Promise<string> => {
  const folder = await mkdtemp(join(tmpdir(), 'usher-completion-'))
  t.teardown(() => rm(folder, { recursive: true }))
  await writeFile(join(folder, 'script'), script(commandLines()))
  await writeFile(join(folder, 'routes a.yaml'), '')
  await writeFile(join(folder, 'routes-b.yaml'), '')
  await mkdir(join(folder, 'routes-dir'))
  return folder
}

/** Runs a program in a folder, without anybody's own settings, and gives its lines. */
export const linesOf = async (
  folder: string,
  program: string,
  args: readonly string[],
): Promise<string[]> => {
  const env = { PATH: process.env['PATH'], HOME: folder, TERM: 'dumb', LC_ALL: 'C' }
  const { stdout } = await execute(program, args, { cwd: folder, env, timeout: 20_000 })
  return stdout.split('\n').filter(line => line !== '')
}
