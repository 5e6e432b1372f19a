import type { Test } from 'tap'
import type { RelayEngine } from '../../src/relay/engine/relay-engine.ts'
import { counterCell, Counters } from '../../src/relay/counters.ts'
import type { Queues } from '../../src/relay/endpoint-capacity.ts'
import { noNodeClients } from '../../src/relay/node-clients.ts'
import type { ConnectionRecord } from '../../src/relay/cause.ts'
import type {
  AccessBatch,
  Bind,
  HandsOver,
  ListenerStats,
  NodeClients,
  Relay,
  RelayEndpoint,
  RelayFront,
  RelayLimits,
  RelayListener,
  RelayObserver,
  RelayStats,
} from '../../src/relay/relay.ts'
import { joinHostPort } from '../../src/util/ip.ts'

/** What a test of the relay's contract may ask for. */
export interface RelayRequest {
  readonly limits?: Partial<RelayLimits>
  readonly openFileLimit?: number
  readonly nodeClients?: NodeClients
  /** Whether records of connections are wanted: true. */
  readonly wants?: boolean
}

/** A listener in short: `binds` are those of its one front, for which there are no rules. */
export type ListenerSpec = Partial<RelayListener> & { readonly binds?: readonly Bind[] }

/** Makes the relay under test; the contract is the same for every kind. */
export type MakeRelay = (
  request: Required<Omit<RelayRequest, 'nodeClients' | 'wants'>> & {
    limits: RelayLimits
    observer: RelayObserver
  },
) => LocalRelay

/** One in this process: its figures are there at once. */
export interface LocalRelay extends Relay, HandsOver {
  stats(): RelayStats
  change: RelayEngine['change']
}

/** Of one worker. */
export const ownQueues: Queues = {
  worker: 1,
  add: () => {},
  remove: () => {},
  wake: () => {},
}

export const ownCounters = (): Counters =>
  new Counters(new Float64Array(counterCell.count), 0)

/** The product's, for tests of dialling. */
export const usualLadder = { limits: { dialLadder: [250, 500, 1000, 2000] } }

/**
 * The product's, but for one step of the ladder: on a host with too much to do a connect takes
 * over 250 ms, and a second attempt beside it shows at the backend as a connection cut short.
 */
export const defaultLimits: RelayLimits = {
  dialLadder: [15_000],
  halfCloseTimeout: 60_000,
  tcpIdleTimeout: 0,
  connectionBuffer: 65_536,
  udpReplyTimeout: 5000,
  udpTimeout: 30_000,
  udpMaxFlowsPerPort: 16_384,
  udpMaxFlows: 65_536,
  reservedFds: 64,
}

export interface RelayFixture {
  readonly relay: LocalRelay
  readonly records: ConnectionRecord[]
  readonly faults: Error[]
  readonly pauses: boolean[]
  /** Names of listeners, as they were told. */
  readonly allFailed: readonly string[]
  /** Of the access log, as they came. */
  readonly accessBatches: readonly AccessBatch[]
  readonly hangs: readonly [thread: number, hung: boolean][]
  /** Applies one listener and nothing else. */
  readonly listen: (spec: ListenerSpec) => Promise<void>
  readonly stats: (id?: string) => ListenerStats
}

/** A relay with its observer written down; drained when the test ends. */
export const relayFixture = (
  t: Test,
  makeRelay: MakeRelay,
  {
    limits = {},
    openFileLimit = 20_000,
    nodeClients = noNodeClients,
    wants = true,
  }: RelayRequest = {},
): RelayFixture => {
  const records: ConnectionRecord[] = []
  const faults: Error[] = []
  const pauses: boolean[] = []
  const hangs: [thread: number, hung: boolean][] = []
  const allFailed: string[] = []
  const accessBatches: AccessBatch[] = []
  const observer: RelayObserver = {
    wants: () => wants,
    connectionClosed: record => void records.push(record),
    bindChanged: () => {},
    acceptPaused: paused => void pauses.push(paused),
    workerHung: (thread, hung) => void hangs.push([thread, hung]),
    allFailed: listener => void allFailed.push(listener),
    accessLines: batch => void accessBatches.push(batch),
    fault: (_listener, error) => void faults.push(error),
  }
  const relay = makeRelay({
    limits: { ...defaultLimits, ...limits },
    openFileLimit,
    observer,
  })
  relay.setNodeClients(nodeClients)
  t.teardown(() => relay.drain(0))
  return {
    relay,
    records,
    faults,
    pauses,
    hangs,
    allFailed,
    accessBatches,
    listen: spec => relay.apply([listenerSpec(spec)]),
    stats: (id = 'test') => {
      const found = [...relay.stats().listeners].find(listener => listener.id === id)
      if (found === undefined) throw new Error(`no listener ${id}`)
      return found
    },
  }
}

export const listenerSpec = ({ binds = [], ...spec }: ListenerSpec): RelayListener => ({
  id: 'test',
  name: 'test/service:port',
  protocol: 'TCP',
  fronts: binds.length > 0 ? [frontOf(binds)] : [],
  endpoints: [],
  affinityMs: 0,
  ...spec,
})

export const frontOf = (
  binds: readonly Bind[],
  over: Partial<RelayFront> = {},
): RelayFront => ({
  binds,
  endpoints: 'all',
  endpointsFromNode: undefined,
  allowedClients: undefined,
  closedReason: 'no endpoints',
  ...over,
})

export const endpoint = (address: string, port: number): RelayEndpoint => ({
  key: joinHostPort(address, port),
  address,
  port,
})

/** Descriptors held for connections and flows: all but those of listening sockets. */
export const carryingFds = ({ fds, listeners }: RelayStats): number => {
  const binds = [...listeners].flatMap(listener => listener.binds)
  return fds.used - binds.filter(({ state }) => state === 'listening').length
}
