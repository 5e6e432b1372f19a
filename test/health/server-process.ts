import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'

/** Some servers refuse to run as root; nobody has no files that they could harm. */
const nobody = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {}

/** A directory that a server may write to, with a path short enough for a Unix socket's. */
export const serverDirectory = (t: Test): string => {
  const path = mkdtempSync(join(tmpdir(), 'usher-'))
  if (nobody.uid !== undefined) chownSync(path, nobody.uid, nobody.gid)
  t.teardown(() => rmSync(path, { recursive: true, force: true, maxRetries: 20 }))
  return path
}

/** Runs a program as a server's user; its output is in the error when it fails. */
export const runAsServer = (
  program: string,
  args: readonly string[],
  input = '',
): string =>
  execFileSync(program, args, {
    ...nobody,
    input,
    cwd: '/',
    encoding: 'utf8',
    stdio: 'pipe',
  })

/** A server in a process of its own, which ends with the test. */
export class ServerProcess {
  readonly #child: ChildProcess
  #log = ''

  constructor(t: Test, program: string, args: readonly string[]) {
    this.#child = spawn(program, args, {
      ...nobody,
      cwd: '/',
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    for (const stream of [this.#child.stdout, this.#child.stderr])
      stream?.on('data', (text: Buffer) => (this.#log += text.toString()))
    t.teardown(() => this.kill())
  }

  /** All that it has said. */
  get log(): string {
    return this.#log
  }

  pause(): void {
    this.#child.kill('SIGSTOP')
  }

  resume(): void {
    this.#child.kill('SIGCONT')
  }

  terminate(): void {
    this.#child.kill('SIGTERM')
  }

  /** Until it has ended; by another signal it may tidy up. */
  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const gone = once(this.#child, 'exit')
    this.#child.kill(signal)
    await gone
  }
}
