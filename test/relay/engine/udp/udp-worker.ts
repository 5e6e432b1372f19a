import { WorkerQueues } from '../../../../src/relay/engine/worker/worker-queues.ts'
import { WorkerSigns } from '../../../../src/relay/engine/shared/worker-signs.ts'
import type { Test } from 'tap'
import { EventLoop } from '../../../../src/relay/engine/event-loop.ts'
import { LinuxListening } from '../../../../src/relay/sockets/linux/listening-sockets.ts'
import {
  Descriptors,
  newDescriptorsMemory,
} from '../../../../src/relay/engine/shared/descriptors.ts'
import {
  counterCell,
  countersOf,
  type ListenerCounters,
} from '../../../../src/relay/counters.ts'
import { SharedEndpointState } from '../../../../src/relay/engine/shared/shared-endpoint-state.ts'
import {
  endpointCell,
  StatsPages,
} from '../../../../src/relay/engine/shared/stats-pages.ts'
import type { Syscalls } from '../../../../src/ffi/syscalls.ts'
import { UdpListener } from '../../../../src/relay/engine/udp/udp-listener.ts'
import type { FlowMoves } from '../../../../src/relay/engine/udp/flow-moves.ts'
import { newUdpShared } from '../../../../src/relay/engine/udp/udp-shared.ts'
import { FdAccount } from '../../../../src/relay/engine/worker/fd-account.ts'
import { EndedConnections } from '../../../../src/relay/ended-connections.ts'
import { NodeClientSet } from '../../../../src/relay/node-clients.ts'
import type { WorkerEnv } from '../../../../src/relay/engine/worker/worker-backend.ts'
import type { Bind, RelayFront } from '../../../../src/relay/relay.ts'
import type { RelayEndpoint } from '../../../../src/relay/relay.ts'
import { freeUdpPort, testHost } from '../../../support/ports.ts'
import { defaultLimits, frontOf, listenerSpec } from '../../../support/relay-fixture.ts'
import { linuxParts } from '../calls-bench.ts'

export interface UdpWorker {
  readonly port: number
  readonly faults: readonly unknown[]
  /** What one worker knows of a listener, carried out in the test's own thread. */
  readonly listener: UdpListener
  readonly moves: FlowMoves
  readonly update: (endpoints: readonly RelayEndpoint[]) => void
  readonly counters: () => ListenerCounters
  readonly held: () => number
}

/**
 * A UDP listener without the rest of the relay, whose loop turns between the test's own
 * events. `over` stands in for system calls.
 */
export const udpWorker = async (
  t: Test,
  endpoints: readonly RelayEndpoint[],
  over: (calls: Syscalls) => Partial<Syscalls> = () => ({}),
  front: Partial<RelayFront> = {},
  address = testHost,
  memory = newDescriptorsMemory(20_000, 64, 2),
): Promise<UdpWorker> => {
  const { calls: real, layout } = linuxParts()
  const calls: Syscalls = { ...real, ...over(real) }
  const loop = new EventLoop(calls, layout, () => performance.now())
  const faults: unknown[] = []
  const descriptors = new Descriptors(memory, 1)
  const pages = {
    listeners: pageOf(counterCell.count),
    ends: pageOf(endpointCell.count),
    endpointState: new SharedEndpointState(),
  }
  pages.endpointState.ensure(0)
  const env: WorkerEnv = {
    thread: 1,
    calls,
    loop,
    knowsTtl: true,
    buffersWrites: false,
    random: Math.random,
    limits: defaultLimits,
    queues: new WorkerQueues(calls, 1, []),
    fds: new FdAccount(calls, loop, descriptors, () => {}),
    listenerPages: pages.listeners,
    endpointPages: pages.ends,
    endpointState: pages.endpointState,
    signs: new WorkerSigns(),
    nodeClients: new NodeClientSet(),
    observer: {
      wants: () => false,
      connectionClosed: () => {},
      accessLines: () => {},
      lastError: () => {},
      allFailed: () => {},
      fault: (_listener, error) => void faults.push(error),
    },
    endedConnections: new EndedConnections(loop.clock, 1),
    isOwn: () => false,
  }
  const bind: Bind = { address, port: await freeUdpPort() }
  const orderOf = (list: readonly RelayEndpoint[]) => ({
    slot: 0,
    spec: listenerSpec({
      protocol: 'UDP',
      fronts: [frontOf([bind], front)],
      endpoints: list,
    }),
    endpointSlots: list.map((_, i) => i),
  })
  const owner = { retired: () => {}, connectionEnded: () => {} }
  const shared = newUdpShared(env)
  const listener = new UdpListener(env, orderOf(endpoints), owner, shared)
  const { fds } = await new LinuxListening(real, {}).open('UDP', bind, 1)
  const [fd = -1] = fds
  listener.open(bind, fd)
  turnUntilTheEnd(t, loop, listener)
  return {
    port: bind.port,
    faults,
    listener,
    moves: shared.moves,
    update: list => listener.update(orderOf(list)),
    counters: () => countersOf(cell => pages.listeners.read(0, cell)),
    held: () => descriptors.used,
  }
}

const pageOf = (cells: number): StatsPages => {
  const pages = new StatsPages(cells)
  pages.ensure(0)
  return pages
}

const turnUntilTheEnd = (t: Test, loop: EventLoop, listener: UdpListener): void => {
  let isOver = false
  const turn = (): void => {
    if (isOver) return
    loop.turn(0)
    setImmediate(turn)
  }
  turn()
  t.teardown(() => {
    isOver = true
    listener.kill()
    loop.close()
  })
}
