import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { Test } from 'tap'
import type { Netns } from '../netns.ts'
import type { AgentCall, Destination, LoadReport, Outcome } from './outcome.ts'

/** Somebody inside of a namespace who dials and answers. */
export interface Agent {
  /** Answers by TCP and UDP on these addresses, with this name. */
  serve(name: string, addresses: readonly string[], port: number): Promise<void>
  dial(to: Destination, timeoutMs: number): Promise<Outcome>
  /** Asks an HTTP server. */
  get(
    address: string,
    port: number,
    path: string,
  ): Promise<{ status: number; body: string }>
  /** New connections all the time, until `end` of what it gives back is called. */
  load(to: readonly Destination[], timeoutMs: number): Promise<() => Promise<LoadReport>>
  /** A connection or UDP socket that is kept. */
  open(to: Destination): Promise<Conversation>
}

export interface Conversation {
  /** Asks who is there, '' for nobody. */
  readonly ask: () => Promise<string>
  /** Of UDP: asks for datagrams all the time, and says nothing from then on. */
  readonly subscribe: () => Promise<void>
  /** Who has sent since the last call, in the order of names. */
  readonly heard: () => Promise<readonly string[]>
  readonly close: () => Promise<void>
}

/**
 * Of one client between two connections to the same address. With four clients of nine addresses
 * each, one comes every 7 ms: a connection costs a millisecond of processor time in all.
 */
const pauseMs = 250

/** Runs this program (writeAgentProgram); ended with the test. */
export const startAgent = async (
  t: Test,
  netns: Netns,
  program: string,
): Promise<Agent> => agentOf(await startProcess(t, netns, program))

/** Somebody who is told by these calls. */
export const agentOf = (call: (call: AgentCall) => Promise<unknown>): Agent => ({
  serve: async (name, addresses, port) => {
    await call({ op: 'serve', name, addresses, port })
  },
  dial: async (to, timeoutMs) =>
    (await call({ op: 'dial', ...to, timeoutMs })) as Outcome,
  get: async (address, port, path) =>
    (await call({ op: 'get', address, port, path })) as {
      status: number
      body: string
    },
  load: async (to, timeoutMs) => {
    await call({ op: 'load', to, pauseMs, timeoutMs })
    return async () => (await call({ op: 'end load' })) as LoadReport
  },
  open: async to => {
    const connection = (await call({ op: 'open', ...to })) as number
    return {
      ask: async () => (await call({ op: 'ask', connection })) as string,
      subscribe: async () => void (await call({ op: 'subscribe', connection })),
      heard: async () => (await call({ op: 'heard', connection })) as string[],
      close: async () => void (await call({ op: 'close', connection })),
    }
  },
})

interface Waiting {
  readonly resolve: (result: unknown) => void
  readonly reject: (error: Error) => void
}

interface Reply {
  readonly id: number
  readonly result?: unknown
  readonly error?: string
}

/** Calls by id; those that it does not live to answer fail. */
const startProcess = async (
  t: Test,
  { prefix, name }: Netns,
  program: string,
): Promise<(call: AgentCall) => Promise<unknown>> => {
  const [command = '', ...args] = prefix.concat(process.execPath, program)
  // Without the variables of the test runner, which would load its own things.
  const { PATH } = process.env
  const child = spawn(command, args, {
    env: { PATH },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const waiting = new Map<number, Waiting>()
  t.teardown(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    child.kill('SIGKILL')
    await once(child, 'exit')
  })
  child.stdin.on('error', () => {})
  child.once('exit', (code, signal) => {
    const error = new Error(`the agent of ${name} ended (${code ?? signal})`)
    for (const { reject } of waiting.values()) reject(error)
  })
  createInterface(child.stdout).on('line', line => {
    const { id, result, error } = JSON.parse(line) as Reply
    const { resolve, reject } = waiting.get(id) ?? {}
    waiting.delete(id)
    if (error === undefined) resolve?.(result)
    else reject?.(new Error(`${name}: ${error}`))
  })
  const replyTo = (id: number): Promise<unknown> =>
    new Promise((resolve, reject) => void waiting.set(id, { resolve, reject }))
  await replyTo(0)
  let id = 0
  return call => {
    id += 1
    const reply = replyTo(id)
    child.stdin.write(`${JSON.stringify({ id, ...call })}\n`)
    return reply
  }
}
