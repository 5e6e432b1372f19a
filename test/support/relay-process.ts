import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import type { RelayLimits, RelayListener, RelayStats } from '../../src/relay/relay.ts'
import { defaultLimits, type ListenerSpec, listenerSpec } from './relay-fixture.ts'
import { typescript } from './typescript.ts'

/** Where a process of its own finds the relay under test: a module's `MakeRelay`. */
export interface RelayModule {
  readonly file: URL
  readonly exported: string
}

export interface RelayUsage {
  /** Bytes of the whole process that are in RAM. */
  readonly rss: number
  /** Bytes that objects and buffers hold after a garbage collection. */
  readonly held: number
  /** Descriptors that the whole process has open. */
  readonly fds: number
  /** Handles, requests and timers that keep the process alive. */
  readonly handles: number
}

export type RelayCall = { readonly id: number } & (
  | { readonly name: 'apply'; readonly listeners: readonly RelayListener[] }
  | { readonly name: 'stats' }
  | { readonly name: 'usage' }
  | { readonly name: 'spawn' }
  | { readonly name: 'kill'; readonly share: number }
)

export interface RelayProcess {
  readonly pid: number
  /** Applies these listeners and no others. */
  readonly listen: (...specs: ListenerSpec[]) => Promise<void>
  readonly stats: () => Promise<RelayStats>
  readonly usage: () => Promise<RelayUsage>
  /** Starts a program that ends at once, and waits for its end. */
  readonly spawn: () => Promise<void>
  /**
   * Has one of its workers die, chosen by a number in [0, 1), and waits until another is in
   * its place. False for a relay without workers. They have to listen; see test/soak.
   */
  readonly killWorker: (share: number) => Promise<boolean>
  /** Whether it is still there. */
  readonly alive: () => boolean
}

export interface RelayProcessRequest {
  readonly limits?: Partial<RelayLimits>
  /** RLIMIT_NOFILE of the process, soft and hard. */
  readonly openFiles?: number
}

/**
 * A relay in a process of its own, so that its memory and descriptors are not those of
 * the test; ended with the test.
 */
export const relayProcess = async (
  t: Test,
  { file, exported }: RelayModule,
  { limits = {}, openFiles }: RelayProcessRequest = {},
): Promise<RelayProcess> => {
  const program = fileURLToPath(new URL('relay-child.ts', import.meta.url))
  const allLimits = JSON.stringify({ ...defaultLimits, ...limits })
  // The room for young objects, which newer versions of Node let grow to far more, is no leak.
  const node = ['--expose-gc', '--max-semi-space-size=1', typescript, program]
  const child = start(openFiles, node.concat(file.href, exported, allLimits))
  t.teardown(async () => {
    if (!isAlive(child)) return
    child.kill('SIGKILL')
    await once(child, 'exit')
  })
  const call = callsTo(child)
  await call(0, undefined)
  let id = 0
  return {
    pid: child.pid ?? -1,
    listen: async (...specs) => {
      const listeners = specs.map(listenerSpec)
      await call(++id, { id, name: 'apply', listeners })
    },
    stats: async () => (await call(++id, { id, name: 'stats' })) as RelayStats,
    usage: async () => (await call(++id, { id, name: 'usage' })) as RelayUsage,
    spawn: async () => void (await call(++id, { id, name: 'spawn' })),
    killWorker: async share => (await call(++id, { id, name: 'kill', share })) === true,
    alive: () => isAlive(child),
  }
}

const start = (openFiles: number | undefined, args: readonly string[]): ChildProcess => {
  // Without the variables of the test runner, which would load its own things.
  const { PATH } = process.env
  const limited =
    openFiles === undefined ? [] : ['sh', '-c', `ulimit -n ${openFiles}; exec "$@"`, 'sh']
  const [program = '', ...rest] = [...limited, process.execPath, ...args]
  return spawn(program, rest, {
    env: { PATH },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
}

const isAlive = ({ exitCode, signalCode }: ChildProcess): boolean =>
  exitCode === null && signalCode === null

type Answer = { readonly id: number; readonly result: unknown }

interface Waiting {
  readonly resolve: (result: unknown) => void
  readonly reject: (error: Error) => void
}

/** Calls by id; one that the process does not live to answer is refused. */
const callsTo = (
  child: ChildProcess,
): ((id: number, call: RelayCall | undefined) => Promise<unknown>) => {
  const waiting = new Map<number, Waiting>()
  child.on('message', message => {
    const { id, result } = message as Answer
    waiting.get(id)?.resolve(result)
    waiting.delete(id)
  })
  child.on('exit', (code, signal) => {
    const error = new Error(`the relay's process ended (${code ?? signal})`)
    for (const { reject } of waiting.values()) reject(error)
  })
  return (id, call) =>
    new Promise((resolve, reject) => {
      waiting.set(id, { resolve, reject })
      if (call !== undefined) child.send(call)
    })
}
