import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import type { StatusDocument } from '../../../src/observe/status.ts'
import type { Netns } from '../netns.ts'
import { until } from '../until.ts'
import type { Exit, LogRecord } from '../usher.ts'
import { usherProgram } from '../usher-program.ts'
import type { Agent } from './agent.ts'

export const metricsPort = 10_249
const healthzPort = 10_256

export interface NodeUsher {
  readonly pid: number
  readonly records: readonly LogRecord[]
  readonly send: (signal: NodeJS.Signals) => void
  readonly exit: Promise<Exit>
  readonly status: () => Promise<StatusDocument>
  /** As `/proxyMode` says it. */
  readonly mode: () => Promise<string>
  /** Waits until all that it was told is in place, and, if said, is so many ServicePorts. */
  readonly ready: (count?: number) => Promise<void>
}

export interface NodeUsherRequest {
  readonly args: readonly string[]
  /** The directory of the tools that it may call. */
  readonly tools: string
}

/**
 * Starts Usher in the node's namespace; killed when the test ends. The node's agent asks
 * it how it does, because nobody else reaches its metrics server.
 */
export const startNodeUsher = (
  t: Test,
  node: Netns,
  agent: Agent,
  { args, tools }: NodeUsherRequest,
): NodeUsher => {
  const [command = '', ...prefix] = node.prefix
  const child = spawn(
    command,
    [
      ...prefix,
      // Not to outlive a test that is killed.
      'setpriv',
      '--pdeathsig=KILL',
      process.execPath,
      usherProgram,
      'run',
      `--metrics-bind-address=127.0.0.1:${metricsPort}`,
      `--healthz-bind-address=127.0.0.1:${healthzPort}`,
      ...args,
      // What is killed leaves nothing, unless a test says so.
      ...(args.some(arg => arg.startsWith('--orphan-timeout'))
        ? []
        : ['--orphan-timeout=0']),
      // Tests of captures say nothing of the mode.
      ...(args.some(arg => arg.startsWith('--proxy-mode'))
        ? []
        : ['--proxy-mode=userspace']),
    ],
    // Without the variables of the test runner, which would load its own things.
    {
      env: { PATH: searched(tools) },
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  )
  const exit = exitOf(child)
  t.teardown(async () => {
    child.kill('SIGKILL')
    await exit
  })
  const records: LogRecord[] = []
  createInterface(child.stdout).on('line', line => {
    records.push(JSON.parse(line) as LogRecord)
  })
  const errors = text(child.stderr)
  let gone = false
  void exit.then(() => (gone = true))
  const status = async (): Promise<StatusDocument> => {
    const { body } = await agent.get('127.0.0.1', metricsPort, '/status')
    return JSON.parse(body) as StatusDocument
  }
  const mode = async (): Promise<string> =>
    (await agent.get('127.0.0.1', metricsPort, '/proxyMode')).body
  const isHealthy = async (): Promise<boolean> => {
    const { body } = await agent.get('127.0.0.1', healthzPort, '/healthz')
    return (JSON.parse(body) as { readonly healthy: boolean }).healthy
  }
  const isReady = async (count: number | undefined): Promise<boolean> => {
    // A status of many Services costs more than its news are worth: health is asked first.
    await sleep(50)
    if (gone) throw new Error(`usher ended: ${await errors}${lastOf(records)}`)
    if (!(await isHealthy().catch(() => false))) return false
    const now = await status().catch(() => undefined)
    if (now?.healthy !== true || !now.servicePorts.every(isPlaced)) return false
    return count === undefined || now.servicePorts.length === count
  }
  const ready = (count?: number): Promise<void> =>
    until('usher serves', () => isReady(count), 90_000).catch((error: unknown) => {
      throw new Error(`${String(error)}; it says: ${lastOf(records)}`)
    })
  return {
    // `ip` and `setpriv` have made way for it.
    pid: child.pid ?? 0,
    records,
    send: signal => void child.kill(signal),
    exit,
    status,
    mode,
    ready,
  }
}

/** One of Usher's commands that ends by itself: what it says; rejects when it fails. */
export const runNodeUsher = (
  node: Netns,
  args: readonly string[],
  tools: string,
): Promise<string> =>
  node.run('env', [`PATH=${searched(tools)}`, process.execPath, usherProgram, ...args])

const searched = (tools: string): string => `${tools}:/usr/bin:/bin`

type PlacedServicePort = StatusDocument['servicePorts'][number]

const isPlaced = ({ vips }: PlacedServicePort): boolean =>
  vips.every(({ state }) => state !== 'binding')

const lastOf = (records: readonly LogRecord[]): string =>
  records
    .slice(-5)
    .map(record => JSON.stringify(record))
    .join('\n')

const exitOf = (child: ChildProcess): Promise<Exit> =>
  new Promise(resolve => {
    child.on('close', (code, signal) => resolve({ code, signal }))
  })
