import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import type { RelayEndpoint, RelayListener } from '../../../src/relay/relay.ts'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import { endpoint } from '../../support/relay-fixture.ts'
import { type RelayModule, relayProcess } from '../../support/relay-process.ts'
import { tcpBackend } from '../../support/tcp-backend.ts'

const changes = 500
const shortVisitors = 12
const longVisitors = 12

/** Changes of every kind, which clients never notice. */
export const reloadContract = (t: Test, relay: RelayModule): void => {
  t.test(`${changes} changes under load lose no connection`, async t => {
    const { listen, stats } = await relayProcess(t, relay)
    const backends = await namedBackends(t)
    const steady = await ports(3)
    const passing = await ports(5)
    const dead = endpoint(testHost, await freeTcpPort())
    const faults: string[] = []
    let visits = 0
    let over = false
    let ids = steady.map((_, i) => `steady ${i}`)

    const specOf = (id: string, { port, listed }: Port): Partial<RelayListener> => {
      const names = someOf([...backends.keys()])
      listed.offer(names)
      const endpoints = names.flatMap(name => backends.get(name) ?? [])
      return {
        id,
        binds: [{ address: testHost, port }],
        endpoints: chance(0.2) ? [dead, ...endpoints] : endpoints,
        affinityMs: chance(0.3) ? 60_000 : 0,
      }
    }
    const change = async (round: number): Promise<readonly Port[]> => {
      // Services change places, and one is renamed.
      if (chance(0.1)) ids = shuffled(ids)
      if (chance(0.1)) ids[0] = `renamed in round ${round}`
      const present = passing.filter(() => chance(0.5))
      const specs = steady.map((port, i) => specOf(ids[i] ?? '', port))
      for (const port of present) specs.push(specOf(`passing ${port.port}`, port))
      await listen(...shuffled(specs))
      for (const { listed } of [...steady, ...present]) listed.applied()
      return present
    }
    const visitTo = async (port: Port, ms: number, served?: () => void) => {
      const fault = await visit(port, ms, served)
      visits += 1
      if (fault !== '') faults.push(`${fault} (port ${port.port}, ${ms} ms)`)
    }
    const visitor = async (longest: number): Promise<void> => {
      while (!over) await visitTo(pick(steady), Math.random() * longest)
    }

    await change(0)
    const visitors = [
      ...Array.from({ length: shortVisitors }, () => visitor(0)),
      ...Array.from({ length: longVisitors }, () => visitor(1500)),
    ]
    for (let round = 1; round <= changes; round += 1) {
      const present = await change(round)
      if (present.length > 0 && round % 20 === 0) {
        // It began while its Service was there; whether that stays must not matter.
        await new Promise<void>(served => {
          visitors.push(visitTo(pick(present), 1500, served))
        })
      }
      await sleep(Math.random() * 8)
    }
    over = true
    await Promise.all(visitors)
    t.strictSame(faults.slice(0, 10), [], `${faults.length} of ${visits} visits failed`)
    t.ok(visits > 2 * changes, `${visits} visits were made all the while`)
    await listen()
    t.strictSame((await stats()).listeners, [], 'and nothing is left of anything')
    t.equal((await stats()).fds.used, 0)
  })
}

/** A port that clients use, and who may answer there. */
interface Port {
  readonly port: number
  readonly listed: Listed
}

const ports = async (count: number): Promise<Port[]> => {
  const found: Port[] = []
  while (found.length < count) {
    found.push({ port: await freeTcpPort(), listed: new Listed() })
  }
  return found
}

/** The names of the endpoints that a port was given, as time went on. */
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
  { port, listed }: Port,
  ms: number,
  served: () => void = () => {},
): Promise<string> => {
  const start = listed.now
  let heard = ''
  let said = ''
  let fault = ''
  const socket = connect(port, testHost)
  socket.on('data', data => {
    const name = data.toString().charAt(0)
    if (heard === '' && !listed.has(name, start)) fault = `${name} was not listed`
    heard += data.toString()
    served()
  })
  socket.on('error', error => (fault ||= error.message))
  const closed = new Promise<void>(resolve => void socket.on('close', resolve))
  const last = performance.now() + ms
  do {
    said += 'x'
    socket.write('x')
    if (ms > 0) await sleep(5)
  } while (performance.now() < last && fault === '')
  socket.end()
  await closed
  served()
  if (fault === '' && heard.slice(1) !== said) fault = `heard ${heard}, said ${said}`
  return fault
}

/** Backends that say their name, then send back what they get. */
const namedBackends = async (t: Test): Promise<Map<string, RelayEndpoint>> => {
  const backends = new Map<string, RelayEndpoint>()
  for (const name of ['a', 'b', 'c', 'd', 'e', 'f']) {
    const backend = await tcpBackend(t, socket => {
      socket.write(name)
      socket.pipe(socket)
    })
    backends.set(name, backend.endpoint)
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
