import { bindKey } from '../../relay.ts'
import type { GivenFlows, MovedAffinity } from '../../hand-over/moved.ts'
import type { Remembered } from '../../../balance/affinity.ts'
import type { GivenPart, Part } from './hand-over.ts'
import type { Group } from './open-sockets.ts'
import type { Port } from './port.ts'
import type { WorkerHandle } from './worker-handle.ts'

/** A listener of UDP, and those of its addresses that another process is to have. */
export interface GivenPort {
  readonly port: Port
  readonly groups: readonly Group[]
}

/** Flows that a worker gives, or settles, before others have their turn: some milliseconds. */
const mostFlowsAtOnce = 1000

/** Addresses that go together, if there are so few flows at them. */
const mostGroups = 64
const fewFlows = 500

/**
 * Whose flows go to another process as one: they rest for as long as that takes, some 20 us for each. A
 * listener is not taken apart, as its flows and its affinity are known as a whole.
 */
export const inBatches = (all: readonly GivenPort[]): GivenPort[][] => {
  const batches: GivenPort[][] = []
  let [last, flows, groups]: [GivenPort[], number, number] = [[], Infinity, 0]
  for (const one of all) {
    const { active } = one.port
    flows += active
    groups += one.groups.length
    if (flows > fewFlows || groups > mostGroups) {
      ;[last, flows, groups] = [[], active, one.groups.length]
      batches.push(last)
    }
    last.push(one)
  }
  return batches
}

/** All flows of some listeners: from its turn on an address is out of the loop of its workers, until `settleFlows`. */
export async function* flowsAt(
  ports: readonly GivenPort[],
  affinity: (port: Port) => AsyncIterable<readonly MovedAffinity[]>,
): AsyncGenerator<Part> {
  for (const { port, groups } of ports) {
    for (const group of groups)
      for (const socket of group.sockets.keys()) yield* flowsOf(port, group, socket)
    for await (const some of affinity(port))
      yield { told: { kind: 'affinity', affinity: some }, fds: [] }
  }
  const binds = ports.flatMap(({ groups }) => groups.map(({ bind }) => bindKey(bind)))
  yield { told: { kind: 'flows-given', binds }, fds: [] }
}

async function* flowsOf(
  { slot }: Port,
  { bind, sockets }: Group,
  socket: number,
): AsyncGenerator<Part> {
  const call = { kind: 'give-flows', slot, bind, most: mostFlowsAtOnce } as const
  for (let isLast = false; !isLast;) {
    const given = await sockets[socket]?.worker.call(call)
    // One that has died has none.
    const { flows, fds, isLast: ends } = (given ?? noFlows) as GivenFlows
    isLast = ends
    if (flows.length > 0)
      yield { told: { kind: 'flows', bind, socket, flows, isLast }, fds }
  }
}

const noFlows: GivenFlows = { flows: [], fds: [], isLast: true }

/** They are the other process's with their sockets, or go on here. */
export const settleFlows = async (
  ports: readonly GivenPort[],
  isTaken: boolean,
): Promise<void> => {
  for (const { port, groups } of ports)
    for (const { bind, sockets } of groups) {
      const at = { slot: port.slot, bind, isTaken, most: mostFlowsAtOnce }
      const settled = sockets.map(async ({ worker }) => {
        while (((await worker.call({ kind: 'settle-flows', ...at })) ?? 0) !== 0);
      })
      await Promise.all(settled)
    }
}

/** Flows of an address that have come from another process, to its workers; how many. */
export const adoptFlows = async (
  slot: number,
  { bind, sockets }: Group,
  given: readonly GivenPart[],
  pay: (worker: WorkerHandle, fds: readonly number[]) => void,
): Promise<number> => {
  const adopted = sockets.map(async ({ worker }, i) => {
    const own = given.filter(({ socket }) => socket === i)
    let count = 0
    for (const some of own.at(-1)?.isLast ? own : [...own, noFlows]) {
      pay(worker, some.fds)
      const call = { kind: 'adopt-flows', slot, bind, given: some } as const
      count += ((await worker.call(call)) ?? 0) as number
    }
    return count
  })
  return (await Promise.all(adopted)).reduce((sum, count) => sum + count, 0)
}

/** Listeners that a worker looks at in a turn, and clients that are told of together. */
const mostListeners = 16
const mostClients = 50_000

/** Whom affinity leads where at these ports, as far as it was used within `ms`. */
export async function* affinityAt(
  ports: readonly Port[],
  workers: readonly WorkerHandle[],
  ms: number,
): AsyncGenerator<readonly MovedAffinity[]> {
  const all = ports.filter(({ spec }) => spec.affinityMs > 0)
  for (let first = 0; first < all.length; first += mostListeners)
    yield* affinityOf(all.slice(first, first + mostListeners), workers, ms)
}

async function* affinityOf(
  ports: readonly Port[],
  workers: readonly WorkerHandle[],
  ms: number,
): AsyncGenerator<readonly MovedAffinity[]> {
  const call = { kind: 'affinity', slots: ports.map(({ slot }) => slot), ms } as const
  const answers = await Promise.all(workers.map(worker => worker.call(call)))
  let [some, count]: [MovedAffinity[], number] = [[], 0]
  for (const [i, worker] of workers.entries()) {
    const lists = (answers[i] ?? []) as readonly (readonly Remembered[])[]
    for (const [j, port] of ports.entries()) {
      const clients = lists[j] ?? []
      if (clients.length === 0) continue
      some.push({ listener: port.spec.id, ...port.placeOf(worker), clients })
      count += clients.length
      if (count < mostClients) continue
      yield some
      ;[some, count] = [[], 0]
    }
  }
  if (some.length > 0) yield some
}
