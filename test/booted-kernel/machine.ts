import { type Agent, agentOf } from '../support/net/agent.ts'
import type { AgentCall } from '../support/net/outcome.ts'
import { bootMachine, type MachineOwner } from './boot.ts'
import type { Log, NodeCall, Ran } from './guest/protocol.ts'
import { findKernel, moduleName } from './kernel.ts'

/** A program in the machine that goes on. */
export interface Launched {
  readonly log: () => Promise<Log>
  /** Its log, once that contains this; rejects when the program ends without it. */
  readonly said: (what: string) => Promise<string>
  readonly end: (signal?: NodeJS.Signals) => Promise<Log>
}

export interface Machine {
  readonly node: Agent
  /** Somebody in a namespace that is there. */
  readonly enter: (netns: string) => Promise<Agent>
  /** Runs a program on the node; rejects when its exit code is not 0. */
  readonly run: (command: string, ...args: readonly string[]) => Promise<string>
  /** Runs one that may fail. */
  readonly try: (command: string, ...args: readonly string[]) => Promise<Ran>
  readonly launch: (command: string, ...args: readonly string[]) => Promise<Launched>
  readonly write: (path: string, text: string) => Promise<void>
  /** What runs `usher`: program and first argument. */
  readonly usher: readonly [command: string, program: string]
  /** As `usher`: what loads every variant of every program. */
  readonly loadVariants: readonly [command: string, program: string]
  /** Puts a Service into ipvs; see guest/sync-ipvs.ts. */
  readonly syncIpvs: (scheduler: string) => Promise<void>
  /** Loads kernel modules and what they need. */
  readonly load: (...modules: readonly string[]) => Promise<void>
}

const callMs = 180_000

/**
 * Boots one; it ends with the test.
 * @param processors - 1 unless told. For the same work two need up to twice as much of the
 * host's, as they wait for each other
 */
export const startMachine = async (t: MachineOwner, processors = 1): Promise<Machine> => {
  const kernel = findKernel()
  const { calls, programs } = await bootMachine(t, kernel, processors)
  const call = (what: NodeCall | AgentCall) => calls.call(what, callMs)
  const attempt: Machine['try'] = async (command, ...args) =>
    (await call({ op: 'run', command, args })) as Ran
  const run: Machine['run'] = async (command, ...args) => {
    const { code, out, err } = await attempt(command, ...args)
    if (code === 0) return out
    throw new Error(`${[command, ...args].join(' ')}: exit code ${code}: ${err}`)
  }
  return {
    node: agentOf(call),
    enter: async netns => {
      const number = (await call({ op: 'enter', netns })) as number
      return agentOf(agentCall => call({ op: 'at', place: number, call: agentCall }))
    },
    run,
    try: attempt,
    launch: async (command, ...args) =>
      launched(call, (await call({ op: 'launch', command, args })) as number),
    usher: [process.execPath, programs.usher],
    loadVariants: [process.execPath, programs.loadVariants],
    syncIpvs: async scheduler => void (await call({ op: 'sync ipvs', scheduler })),
    write: async (path, text) => void (await call({ op: 'write', path, text })),
    load: async (...names) => {
      const loaded = await run('cat', '/proc/modules')
      const isNew = (path: string): boolean =>
        !loaded.split('\n').some(line => line.startsWith(`${moduleName(path)} `))
      const paths = kernel.modules(...names).filter(isNew)
      await run('busybox', 'sh', '-c', loadAll, 'load', ...paths)
    },
  }
}

type Call = (what: NodeCall) => Promise<unknown>

const launched = (call: Call, process: number): Launched => {
  const log = async (): Promise<Log> => (await call({ op: 'log', process })) as Log
  const said = async (what: string): Promise<string> => {
    const { text, code } = (await call({ op: 'said', process, text: what })) as Log
    if (text.includes(what)) return text
    throw new Error(`ended with ${code} and never said ${what}: ${text}`)
  }
  const end = async (signal: NodeJS.Signals = 'SIGTERM'): Promise<Log> =>
    (await call({ op: 'end', process, signal })) as Log
  return { log, said, end }
}

/** In one process: to start one takes the machine longer than to load a module. */
const loadAll = 'for path; do busybox insmod "$path" || exit; done'
