import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import type { RelayEndpoint } from '../../../src/relay/relay.ts'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import { carryingFds, endpoint, type ListenerSpec } from '../../support/relay-fixture.ts'
import { type RelayModule, relayProcess } from '../../support/relay-process.ts'
import { namedEcho } from '../../support/tcp-backend.ts'

const changes = 500
const shortVisitors = 12
const longVisitors = 12

/** Changes of every kind, which clients never notice. */
export const reloadContract = (t: Test, relay: RelayModule): void => {
  t.test(`${changes} changes under load lose no connection`, async t => {
    const { listen, stats } = await relayProcess(t, relay)
    const backends = await namedBackends(t)
    const steady = [await service(1), await service(1), await service(2)]
    const passing = await Promise.all(Array.from({ length: 5 }, () => service(1)))
    const dead = endpoint(testHost, await freeTcpPort())
    const faults: string[] = []
    let visits = 0
    const over = new AbortController()

    const specsOf = ({ ids, ports, listed }: Service): ListenerSpec[] => {
      const names = someOf([...backends.keys()])
      listed.offer(names)
      const endpoints = names.flatMap(name => backends.get(name) ?? [])
      if (chance(0.2)) endpoints.push(dead)
      const affinityMs = chance(0.3) ? 60_000 : 0
      return ports.map((port, i): ListenerSpec => {
        const binds = [{ address: testHost, port }]
        return { id: ids[i] ?? '', binds, endpoints, affinityMs }
      })
    }
    const change = async (round: number): Promise<readonly Service[]> => {
      for (const one of steady) {
        if (chance(0.1)) one.ids[0] = `renamed in round ${round} ${one.ports[0]}`
        if (chance(0.1)) one.ids.reverse()
      }
      const present = [...steady, ...passing.filter(() => chance(0.5))]
      await listen(...shuffled(present.flatMap(specsOf)))
      for (const { listed } of present) listed.applied()
      return present
    }
    const visitTo = async (to: Service, ms: number, served?: () => void) => {
      const fault = await visit(to, ms, served)
      visits += 1
      if (fault !== '') faults.push(fault)
    }
    const visitor = async (longest: number): Promise<void> => {
      while (!over.signal.aborted) await visitTo(pick(steady), Math.random() * longest)
    }

    await change(0)
    const visitors = [
      ...Array.from({ length: shortVisitors }, () => visitor(0)),
      ...Array.from({ length: longVisitors }, () => visitor(1500)),
    ]
    for (let round = 1; round <= changes; round += 1) {
      const present = await change(round)
      if (round % 20 === 0) {
        // It began while its Service was there; whether that stays must not matter.
        await new Promise<void>(served => {
          visitors.push(visitTo(pick(present), 1500, served))
        })
      }
      await sleep(Math.random() * 8)
    }
    over.abort()
    await Promise.all(visitors)
    t.strictSame(faults.slice(0, 10), [], `${faults.length} of ${visits} visits failed`)
    t.ok(visits > 2 * changes, `${visits} visits were made all the while`)
    await listen()
    t.strictSame((await stats()).listeners, [], 'and nothing is left of anything')
    t.equal(carryingFds(await stats()), 0)
  })
}

/** One list of endpoints behind one or two ports, and the listeners' ids for them. */
interface Service {
  readonly ids: string[]
  readonly ports: readonly number[]
  readonly listed: Listed
}

const service = async (ports: number): Promise<Service> => {
  const found: number[] = []
  while (found.length < ports) found.push(await freeTcpPort())
  return { ids: found.map(String), ports: found, listed: new Listed() }
}

/** The names of the endpoints that a Service was given, as time went on. */
class Listed {
  readonly #lists: (readonly string[])[] = []
  #applied = 0

  /** The relay is about to be told, and may take the list at once. */
  offer(names: readonly string[]): void {
    this.#lists.push(names)
  }

  /** The relay has taken it: from now on earlier lists count no more. */
  applied(): void {
    this.#applied = this.#lists.length - 1
  }

  get now(): number {
    return this.#applied
  }

  /** Whether `name` was listed at some moment since `start`, a `now` of then. */
  has(name: string, start: number): boolean {
    return this.#lists.slice(start).some(list => list.includes(name))
  }
}

/**
 * Connects, is told the endpoint's name, says something now and then for `ms`
 * milliseconds, and ends. Gives what was wrong, '' when all was well.
 */
const visit = async (
  { ports, listed }: Service,
  ms: number,
  served: () => void = () => {},
): Promise<string> => {
  const start = listed.now
  let heard = ''
  let said = ''
  let fault = ''
  const port = pick(ports)
  const socket = connect(port, testHost)
  socket.on('data', data => {
    const name = data.toString().charAt(0)
    if (heard === '' && !listed.has(name, start)) fault = `${name} was not listed`
    heard += data.toString()
    served()
  })
  socket.on('error', error => (fault ||= error.message))
  socket.setTimeout(10_000, () => socket.destroy(new Error('nothing moved')))
  const closed = new Promise<void>(resolve => void socket.on('close', resolve))
  const last = performance.now() + ms
  do {
    said += 'x'
    socket.write('x')
    if (ms > 0) await sleep(5)
  } while (performance.now() < last && !socket.destroyed)
  socket.end()
  await closed
  served()
  if (fault === '' && heard.slice(1) !== said) fault = `heard ${heard}, said ${said}`
  return fault === '' ? '' : `port ${port}, ${ms} ms: ${fault}`
}

const namedBackends = async (t: Test): Promise<Map<string, RelayEndpoint>> => {
  const backends = new Map<string, RelayEndpoint>()
  for (const name of ['a', 'b', 'c', 'd', 'e', 'f']) {
    backends.set(name, (await namedEcho(t, name)).endpoint)
  }
  return backends
}

const chance = (probability: number): boolean => Math.random() < probability

const pick = <T>(list: readonly T[]): T => {
  const item = list[Math.floor(Math.random() * list.length)]
  if (item === undefined) throw new Error('nothing to pick from')
  return item
}

const shuffled = <T>(list: readonly T[]): T[] =>
  list
    .map(item => ({ item, at: Math.random() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ item }) => item)

/** One to three of them. */
const someOf = <T>(list: readonly T[]): T[] =>
  shuffled(list).slice(0, 1 + Math.floor(Math.random() * 3))
