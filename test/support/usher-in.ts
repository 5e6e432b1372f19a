import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import type { Netns } from './netns.ts'
import { usherProgram } from './usher-program.ts'

export interface Ended {
  readonly code: number
  readonly out: string
  readonly err: string
}

/** Runs a command in a namespace, after `before` (as `setpriv ...`), to its end. */
export const usherIn = async (
  ns: Netns,
  args: readonly string[],
  before: readonly string[] = [],
): Promise<Ended> => {
  const [command = '', ...rest] = ns.prefix
  // Without the variables of the test runner, which would load its own things.
  const env = { PATH: process.env['PATH'] }
  const line = [...rest, ...before, process.execPath, usherProgram, ...args]
  const child = spawn(command, line, {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 170_000,
    killSignal: 'SIGKILL',
  })
  const [[code], out, err] = await Promise.all([
    once(child, 'close') as Promise<[number]>,
    text(child.stdout),
    text(child.stderr),
  ])
  return { code, out, err }
}

/** Runs Node in a namespace; resolves once it has written `ready`, with what ends it. */
export const runningIn = async (
  ns: Netns,
  args: readonly string[],
  ready = /./,
  path = process.env['PATH'],
): Promise<() => Promise<void>> => {
  const [command = '', ...rest] = ns.prefix
  const child = spawn(command, [...rest, process.execPath, ...args], {
    env: { PATH: path },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let out = ''
  await new Promise<void>((resolve, reject) => {
    child.once('close', () => reject(new Error(`ended before it was ready: ${out}`)))
    child.stdout.setEncoding('utf8').on('data', (piece: string) => {
      out += piece
      if (ready.test(out)) resolve()
    })
  })
  const closed = once(child, 'close')
  return async () => {
    child.kill('SIGKILL')
    await closed
  }
}
