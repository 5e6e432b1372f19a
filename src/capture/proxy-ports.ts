import { createSocket } from 'node:dgram'
import { createServer } from 'node:net'
import type { Protocol } from '../model/service.ts'
import { isOutOfResources } from '../util/out-of-resources.ts'

export interface PortRange {
  readonly first: number
  readonly last: number
}

/**
 * Whether a port (0: any) can be bound on all the addresses; which one, if so. Rejects
 * when there is no descriptor or memory to find out with.
 */
export type TryPort = (
  protocol: Protocol,
  addresses: readonly string[],
  port: number,
) => Promise<number | undefined>

const triesWithoutRange = 16

/**
 * Where the system chooses from (ip(7), ip_local_port_range). Linux tries but a quarter of
 * it first, and so offers the same 7000 ports for as long as nobody listens on them.
 */
const ephemeral: PortRange = { first: 32_768, last: 60_999 }

/**
 * Hands out proxy ports: from a range, or of the system's choice. A ServicePort keeps its
 * port for as long as the process lives, even while it is away; only when the range has
 * run out are the ports of absent ServicePorts given to others, those longest away first.
 */
export class ProxyPorts {
  readonly #range: PortRange | undefined
  readonly #random: () => number
  readonly #tryPort: TryPort
  readonly #ports = new Map<string, Held>()
  readonly #taken: Readonly<Record<Protocol, Set<number>>> = {
    TCP: new Set(),
    UDP: new Set(),
  }
  /** Ids that have no use for their port now, those away for longest first. */
  readonly #away = new Set<string>()

  constructor(
    range: PortRange | undefined,
    random: () => number,
    tryPort: TryPort = tryToBind,
  ) {
    this.#range = range
    this.#random = random
    this.#tryPort = tryPort
  }

  /** Whether there is a port for `id`, in use or not. */
  holds(id: string): boolean {
    return this.#ports.has(id)
  }

  /** Undefined when no port is to be had. */
  async portFor(
    id: string,
    protocol: Protocol,
    addresses: readonly string[],
  ): Promise<number | undefined> {
    this.#away.delete(id)
    const known = this.#ports.get(id)
    if (known !== undefined) return known.port
    const port = (await this.#find(protocol, addresses)) ?? this.#takeBack(protocol)
    if (port === undefined) return undefined
    this.#ports.set(id, { port, protocol })
    this.#taken[protocol].add(port)
    return port
  }

  /** `id` is away: others may have its port when there is no other. */
  release(id: string): void {
    if (!this.#ports.has(id)) return
    this.#away.delete(id)
    this.#away.add(id)
  }

  async #find(
    protocol: Protocol,
    addresses: readonly string[],
  ): Promise<number | undefined> {
    const taken = this.#taken[protocol]
    for (const candidate of this.#candidates()) {
      if (taken.has(candidate)) continue
      const port = await this.#tryPort(protocol, addresses, candidate)
      if (port !== undefined && !taken.has(port)) return port
    }
    return undefined
  }

  /** The whole range from a random place on; without a range, the system's choice. */
  *#candidates(): Iterable<number> {
    if (this.#range === undefined) {
      yield* Array<number>(triesWithoutRange).fill(0)
      for (let i = 0; i < triesWithoutRange; i += 1) {
        const size = ephemeral.last - ephemeral.first + 1
        yield ephemeral.first + Math.floor(this.#random() * size)
      }
      return
    }
    const { first, last } = this.#range
    const size = last - first + 1
    const start = Math.floor(this.#random() * size)
    for (let i = 0; i < size; i += 1) yield first + ((start + i) % size)
  }

  #takeBack(protocol: Protocol): number | undefined {
    for (const id of this.#away) {
      const held = this.#ports.get(id)
      if (held?.protocol !== protocol) continue
      this.#away.delete(id)
      this.#ports.delete(id)
      return held.port
    }
    return undefined
  }
}

interface Held {
  readonly port: number
  readonly protocol: Protocol
}

const tryToBind: TryPort = async (protocol, addresses, wanted) => {
  let port = wanted
  const open: (() => void)[] = []
  try {
    for (const address of addresses) {
      const bound = await (protocol === 'TCP' ? bindTcp : bindUdp)(address, port)
      open.push(bound.close)
      port = bound.port
    }
    return port
  } catch (error) {
    if (isOutOfResources((error as NodeJS.ErrnoException).code)) throw error
    return undefined // In use on one of them, which is all that was asked.
  } finally {
    for (const close of open) close()
  }
}

interface Bound {
  readonly port: number
  readonly close: () => void
}

const bindTcp = (host: string, port: number): Promise<Bound> =>
  new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen({ host, port, ipv6Only: true, exclusive: true }, () => {
      const address = server.address()
      const bound = typeof address === 'object' ? (address?.port ?? port) : port
      resolve({ port: bound, close: () => server.close() })
    })
  })

const bindUdp = (address: string, port: number): Promise<Bound> =>
  new Promise((resolve, reject) => {
    const type = address.includes(':') ? 'udp6' : 'udp4'
    const socket = createSocket({ type, ipv6Only: type === 'udp6' })
    socket.once('error', error => {
      socket.close()
      reject(error)
    })
    socket.bind({ address, port, exclusive: true }, () => {
      resolve({ port: socket.address().port, close: () => socket.close() })
    })
  })
