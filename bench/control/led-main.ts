import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer } from 'node:net'
import { Bpf } from '../../src/kernel/bpf/bpf.ts'
import { noPins } from '../../src/kernel/bpf/pins.ts'
import { ConnectTime } from '../../src/kernel/connect-time/connect-time.ts'
import { runTool, StoppableTools } from '../../src/kernel/run-tool.ts'
import { readyEndpoint } from '../../src/model/service.ts'
import type { ServicePort, Snapshot, Target } from '../../src/model/snapshot.ts'
import { SortedMap } from '../../src/model/sorted-map.ts'
import { systemClock as clock } from '../../src/util/clock.ts'
import { answerCalls } from '../process/child.ts'
import type { Endpoint } from '../services.ts'
import { Cluster } from './cluster.ts'
import { spending } from './stream.ts'

/* Leads its own connects, in the cgroup of its first argument and a network namespace of its own. */

/** What its clients dial; nothing else leads there. */
const vip = { address: '10.95.0.1', port: 80 } as const

interface Opened {
  readonly led: Led
  readonly servers: readonly [NamedServer, NamedServer]
}

let opened: Opened | undefined

const theOpened = (): Opened => {
  if (opened === undefined) throw new Error('there was no first sync')
  return opened
}

/** The first sync: programs checked and attached, and all tables filled. */
const first = async (services: number, endpoints: number) => {
  await runTool('ip', ['link', 'set', 'lo', 'up'])
  const servers = [await saying('127.0.0.2'), await saying('127.0.0.3')] as const
  const led = await new Promise<Led>(resolve => {
    const made: Led = new Led(process.argv[2] ?? '', services, endpoints, () =>
      resolve(made),
    )
  })
  const snapshot = led.snapshot([servers[0]])
  const spent = spending()
  await led.sync(snapshot)
  const { wallMs, cpuMs } = spent()
  opened = { led, servers }
  // Of all tables, filled as they are then.
  return { wallMs, cpuMs, kernelBytes: memoryOfMaps() }
}

/** As the kernel books it on maps (Documentation/bpf, bpf_map_show_fdinfo). */
const memoryOfMaps = (): number => {
  let bytes = 0
  for (const descriptor of readdirSync('/proc/self/fdinfo'))
    try {
      const info = readFileSync(`/proc/self/fdinfo/${descriptor}`, 'utf8')
      if (info.includes('map_type:'))
        bytes += Number(/^memlock:\s+(\d+)$/m.exec(info)?.[1] ?? 0)
    } catch {
      // That of the folder itself is closed by now.
    }
  return bytes
}

/**
 * An endpoint moves, again and again: milliseconds until the tables have it, and until a connect,
 * begun then, has heard from the new one.
 */
const changes = async (count: number) => {
  const { led, servers } = theOpened()
  const [one, other] = servers
  const writtenMs: number[] = []
  const seenMs: number[] = []
  for (let n = 0; n < count; n += 1) {
    const next = n % 2 === 0 ? other : one
    const changedAt = performance.now()
    await led.sync(led.snapshot([next]))
    writtenMs.push(performance.now() - changedAt)
    const who = await whoAnswers(vip)
    if (who !== next.address) throw new Error(`a connect came to ${who ?? 'nobody'}`)
    seenMs.push(performance.now() - changedAt)
  }
  return { writtenMs, seenMs }
}

/**
 * Connects to a Service one of whose two endpoints refuses, one after the other: what a failure
 * costs, the next ones know.
 */
const dead = async (connects: number) => {
  const { led, servers } = theOpened()
  const [one, other] = servers
  await led.sync(led.snapshot([one, other]))
  other.close()
  const startedAt = performance.now()
  let failed = 0
  for (let n = 0; n < connects; n += 1)
    if ((await whoAnswers(vip)) === undefined) failed += 1
  return { connects, failed, seconds: (performance.now() - startedAt) / 1000 }
}

/** Connect-time steering as `usher run` has it, of Services of which one can be dialled. */
class Led {
  #servicePorts: SortedMap<ServicePort>
  readonly #model: ServicePort
  readonly #steering: ConnectTime
  #failure = ''

  constructor(cgroup: string, services: number, endpoints: number, ready: () => void) {
    const { servicePorts } = new Cluster(services, endpoints).snapshot()
    this.#servicePorts = SortedMap.empty<ServicePort>().with(new Map(servicePorts))
    const [model] = this.#servicePorts.list
    if (model === undefined) throw new Error('there are no Services')
    this.#model = model
    this.#steering = new ConnectTime({
      clock,
      bpf: new Bpf(),
      cgroup,
      features: { errors: true, avoidsFailed: true, node: undefined, onlyNode: false },
      pins: noPins,
      lock: { acquire: async () => true, release: async () => {} },
      nodeAddresses: () => ['192.0.2.1', '127.0.0.1'],
      tools: new StoppableTools(),
      resync: ready,
      observer: {
        synced: () => {},
        failed: ({ message }) => void (this.#failure = message),
        damaged: what => void (this.#failure = what),
        udpFailed: () => {},
      },
    })
    this.#steering.start()
  }

  /** All Services as they are, and the one that is dialled, which leads there. */
  snapshot(to: readonly Endpoint[]): Snapshot {
    const one = this.#dialled(to)
    this.#servicePorts = this.#servicePorts.with(new Map([[one.key, one]]))
    const servicePorts = this.#servicePorts
    return { family: 'IPv4', servicePorts, healthChecks: new Map() }
  }

  /** Rejects where it does not lead afterwards. */
  async sync(snapshot: Snapshot): Promise<void> {
    await this.#steering.sync([snapshot])
    if (this.#failure !== '' || this.#steering.left.length > 0)
      throw new Error(this.#failure || 'its tables have no room for all')
  }

  #dialled(to: readonly Endpoint[]): ServicePort {
    const endpoints = to.map(one => ({ ...readyEndpoint(one.address), port: one.port }))
    const target: Target = { verdict: 'forward', endpoints }
    return {
      ...this.#model,
      key: 'bench/dialled:http/TCP',
      name: 'bench/dialled:http',
      serviceName: 'dialled',
      vips: [{ kind: 'ClusterIP', ...vip }],
      endpoints,
      reachable: endpoints,
      internal: target,
      external: target,
      externalFromNode: target,
    }
  }
}

/** An address of loopback that says its name, which is the address, to whoever connects. */
interface NamedServer extends Endpoint {
  readonly close: () => void
}

const saying = async (address: string): Promise<NamedServer> => {
  const server = createServer(socket => {
    socket.on('error', () => {}) // Its client has heard enough.
    socket.end(address)
  })
  server.listen({ host: address, port: 0 })
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return { address, port, close: () => void server.close() }
}

/** Who answers there; undefined when the connect fails. */
const whoAnswers = ({ address, port }: Endpoint): Promise<string | undefined> =>
  new Promise(resolve => {
    let heard = ''
    const socket = connect({ host: address, port })
    socket.setEncoding('latin1')
    socket.on('data', text => void (heard += String(text)))
    socket.on('error', () => resolve(undefined))
    socket.on('end', () => resolve(heard))
  })

const calls = { first, changes, dead }
export type LedCalls = typeof calls
answerCalls(calls)
