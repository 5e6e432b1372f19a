import type { Test } from 'tap'
import type { Io } from '../../src/cli/io.ts'
import type { Placement } from '../../src/capture/capture.ts'
import type { ModeName } from '../../src/mode/mode.ts'
import { OperatorOrders } from '../../src/mode/operator-orders.ts'
import { Registry } from '../../src/model/registry.ts'
import type { Change } from '../../src/model/service.ts'
import { statusRoute } from '../../src/observe/admin-routes.ts'
import { startControl } from '../../src/proxy/control.ts'
import type { DataPath } from '../../src/proxy/data-path.ts'
import {
  type QueryResult,
  type QueryParams,
  emptyResults,
  type QueryName,
} from '../../src/relay/queries.ts'
import type { Relay } from '../../src/relay/relay.ts'
import { noNodeClients } from '../../src/relay/node-clients.ts'
import { ipFamilies } from '../../src/util/ip.ts'
import { socketPath } from '../support/control-socket.ts'
import { FakeClock } from '../support/fake-clock.ts'
import { recordingLog } from '../support/recording-log.ts'
import { keptIo } from '../support/kept-io.ts'

/** What a control socket talks to, of the relay. */
export type ControlledRelay = {
  readonly [Q in QueryName]?: (asked: QueryParams<Q>) => Promise<QueryResult<Q>>
}

const relayThatAnswers = (answers: ControlledRelay): Pick<Relay, 'query'> => ({
  query: async (question, asked) =>
    (await answers[question]?.(asked)) ?? emptyResults[question],
})

type Writable<T> = { -readonly [K in keyof T]: T[K] }

/** A control socket over these objects; `applied` says when an order is in effect. */
export const controlSocket = async (
  t: Test,
  changes: readonly Change[],
  relay: ControlledRelay = {},
  status: () => object = () => ({}),
) => {
  const clock = new FakeClock()
  const registry = new Registry()
  registry.apply([...changes])
  const orders = new OperatorOrders({ clock, ended: () => {} })
  /** Beside a kernel mode there may be none. */
  const plane = { hasRelay: true }
  const mode: {
    name: ModeName
    placements: Placement[]
    lend: () => Promise<() => void>
  } = {
    name: 'userspace',
    placements: [],
    lend: async () => () => {},
  }
  const reconciler = {
    snapshots: () => ipFamilies.map(family => registry.snapshot(family)),
    resync: () => {},
    applied: async () => {},
  }
  const dataPath = () =>
    plane.hasRelay
      ? {
          relay: relayThatAnswers(relay) as DataPath['relay'],
          captureChoice: () => ({ name: 'listen', detail: '', passedOver: [] }) as const,
          proxyPorts: () => [],
        }
      : undefined
  const path = await socketPath(t)
  const log = recordingLog([])
  const options = {
    controlSocket: path,
  } as Writable<Parameters<typeof startControl>[0]['options']>
  const server = await startControl({
    options,
    clock,
    log,
    orders,
    reconciler,
    replaced: () => {},
    around: {
      place: () => ({ nodeName: '', zone: '' }),
      nodeClients: () => noNodeClients,
      status: async () => ({
        snapshots: [...reconciler.snapshots()],
        placements: [...mode.placements],
        stats: { listeners: [] },
        orders: orders.all(),
        checksOf: () => undefined,
      }),
      connectTime: { inspectCommands: () => [] },
    },
    traffic: { mode, dataPath },
    status: statusRoute(async () => [Buffer.from(JSON.stringify(status()))]),
  })
  t.teardown(() => server?.close())
  return { clock, orders, mode, plane, options, reconciler, registry, path, server }
}

/** What a command printed, and its exit code. */
export const ran = async <O>(
  command: (options: O, io: Io) => Promise<number>,
  options: O,
) => {
  const { io, printed } = keptIo()
  const code = await command(options, io)
  return { code, ...printed }
}
