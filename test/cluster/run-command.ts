import { type ChildProcess, spawn, type SpawnOptions } from 'node:child_process'
import { once } from 'node:events'
import { openSync, closeSync } from 'node:fs'

export type Environment = Readonly<Record<string, string>>

/** A command that has ended with another code than 0. */
class CommandFailed extends Error {
  constructor(command: readonly string[], code: unknown, output: string) {
    const last = output.trim().split('\n').slice(-15).join('\n')
    super(`${command.join(' ').slice(0, 300)}: ended with ${String(code)}\n${last}`)
    this.name = 'CommandFailed'
  }
}

interface CommandOptions {
  readonly cwd?: string
  readonly env?: Environment
  /** Written to its standard input. */
  readonly input?: string
}

/** What it prints; rejects with `CommandFailed`, and what it printed in both streams. */
export const output = async (
  command: readonly string[],
  { cwd, env, input = '' }: CommandOptions = {},
): Promise<string> => {
  const [program = '', ...args] = command
  const child = spawn(program, args, { cwd, env: { ...process.env, ...env } })
  let [printed, all] = ['', '']
  child.stdout.on('data', (chunk: Buffer) => {
    printed += String(chunk)
    all += String(chunk)
  })
  child.stderr.on('data', (chunk: Buffer) => (all += String(chunk)))
  child.stdin.on('error', () => {}) // It may end before it has read.
  child.stdin.end(input)
  const [code, signal] = (await once(child, 'close')) as [number | null, string | null]
  if (code !== 0) throw new CommandFailed(command, code ?? signal, all)
  return printed
}

/** Whether it ends with 0; what it says is lost. */
export const succeeds = async (
  command: readonly string[],
  options: CommandOptions = {},
): Promise<boolean> =>
  await output(command, options).then(
    () => true,
    () => false,
  )

/** In the background, in a session of its own; its output is added to `log`. */
export const startDaemon = (
  command: readonly string[],
  log: string,
  env: Environment = {},
): ChildProcess => {
  const [program = '', ...args] = command
  const fd = openSync(log, 'a')
  const options: SpawnOptions = {
    stdio: ['ignore', fd, fd],
    detached: true,
    env: { ...process.env, ...env },
  }
  const child = spawn(program, args, options)
  closeSync(fd)
  return child
}

/** SIGTERM, and SIGKILL after `graceMs`. Resolves when it has ended. */
export const stopDaemon = async (
  child: ChildProcess,
  graceMs = 15_000,
): Promise<void> => {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  const timer = setTimeout(() => child.kill('SIGKILL'), graceMs)
  await ended
  clearTimeout(timer)
}

/** What takes long says when it begins and how long it took. */
export const step = async <T>(what: string, does: () => Promise<T>): Promise<T> => {
  const began = performance.now()
  process.stderr.write(`${what} ...\n`)
  const result = await does()
  process.stderr.write(`${what}: ${((performance.now() - began) / 1000).toFixed(1)} s\n`)
  return result
}
