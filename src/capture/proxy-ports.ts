import type { Protocol } from '../model/service.ts'
import { tryToBind, type TryPort } from './try-port.ts'

export type { TryPort } from './try-port.ts'

export interface PortRange {
  readonly first: number
  readonly last: number
}

export interface OwnedPort {
  readonly id: string
  readonly protocol: Protocol
  readonly port: number
}

/** A port that has an owner, which may be away. */
export interface HeldPort extends OwnedPort {
  /** There is no listener there now. */
  readonly away: boolean
}

/** What outlives the process. */
export interface PortKeeper {
  /** Held by an earlier process, those away for longest first. */
  readonly known: readonly HeldPort[]
  /** `held` gives what is held when it is called, those away for longest first. */
  changed(held: () => readonly HeldPort[]): void
}

const triesWithoutRange = 16

/**
 * Where the system chooses from (ip(7), ip_local_port_range). Linux tries but a quarter of
 * it first, and so offers the same 7000 ports for as long as none of them is listened on.
 */
const ephemeral: PortRange = { first: 32_768, last: 60_999 }

/**
 * Hands out proxy ports: from a range, or of the system's choice. A ServicePort keeps its
 * port, even while it is away, and beyond the end of the process if it is remembered
 * and it is still free then; only when the range has run out are the ports of absent
 * ServicePorts given to others, those longest away first.
 *
 * The system chooses from the ephemeral ports, and that is right: others expect to find
 * those taken, while a port outside of them may be one on which a daemon that starts later
 * wants to listen at all addresses, which includes Usher's own.
 */
export class ProxyPorts {
  readonly #range: PortRange | undefined
  readonly #random: () => number
  readonly #tryPort: TryPort
  readonly #keeper: PortKeeper | undefined
  readonly #ports = new Map<string, Held>()
  readonly #taken: Readonly<Record<Protocol, Set<number>>> = {
    TCP: new Set(),
    UDP: new Set(),
    // Never held: userspace mode leaves those ServicePorts out.
    SCTP: new Set(),
  }
  /** Ids that have no use for their port now, those away for longest first. */
  readonly #away = new Set<string>()
  #losses = 0

  constructor(
    range: PortRange | undefined,
    random: () => number,
    tryPort: TryPort = tryToBind,
    keeper?: PortKeeper,
  ) {
    this.#range = range
    this.#random = random
    this.#tryPort = tryPort
    this.#keeper = keeper
    for (const one of keeper?.known ?? []) this.#remember(one)
  }

  /** How often one was lost: what rests on the answers of `portFor` is to ask anew when that changes. */
  get losses(): number {
    return this.#losses
  }

  /** Whether a port has an owner here. */
  isHeld(port: number): boolean {
    return Object.values(this.#taken).some(ports => ports.has(port))
  }

  /**
   * Others took the port of `id` before it was listened on: the next `portFor` gives another one,
   * unless it is free again. False: that is not its port, or is known.
   */
  lost(id: string, port: number): boolean {
    const held = this.#ports.get(id)
    if (held?.port !== port || !held.proven) return false
    this.#ports.set(id, { ...held, proven: false })
    this.#away.add(id)
    this.#losses += 1
    return true
  }

  /** What is in use. */
  inUse(): readonly OwnedPort[] {
    return [...this.#ports].flatMap(([id, held]) =>
      this.#away.has(id) ? [] : [{ id, ...portOf(held) }],
    )
  }

  /**
   * What an earlier process has handed over the sockets of is not tried. `owned`: what it had in use by its
   * own account; else what was remembered of it is taken for that. Gives how many those are.
   */
  prove(isHanded: (owned: OwnedPort) => boolean, owned?: readonly OwnedPort[]): number {
    if (owned !== undefined) this.#learn(owned.filter(isHanded))
    let proven = 0
    for (const [id, held] of this.#ports) {
      if (held.proven || !isHanded({ id, ...portOf(held) })) continue
      this.#ports.set(id, { ...held, proven: true })
      proven += 1
    }
    return proven
  }

  /** Whether there is a port for `id`, in use or not. */
  holds(id: string): boolean {
    return this.#ports.has(id)
  }

  /** Undefined when no port is free. */
  async portFor(
    id: string,
    protocol: Protocol,
    addresses: readonly string[],
  ): Promise<number | undefined> {
    const known = this.#ports.get(id)
    if (known?.proven === true) {
      if (this.#away.delete(id)) this.#changed()
      return known.port
    }
    const port = await this.#newPort(id, protocol, addresses)
    if (port === undefined) return undefined
    this.#away.delete(id)
    this.#ports.set(id, { port, protocol, proven: true })
    this.#taken[protocol].add(port)
    this.#changed()
    return port
  }

  /** `id` is away: others may have its port when there is no other. */
  release(id: string): void {
    // What is only remembered is away already, for longer than this.
    if (this.#ports.get(id)?.proven !== true) return
    if (this.#away.delete(id)) this.#away.add(id)
    else {
      this.#away.add(id)
      this.#changed()
    }
  }

  /** Of these, what was remembered is forgotten. */
  #learn(owned: readonly OwnedPort[]): void {
    const keyOf = ({ protocol, port }: Held | OwnedPort): string => `${protocol} ${port}`
    const [ids, keys] = [new Set(owned.map(({ id }) => id)), new Set(owned.map(keyOf))]
    for (const [id, held] of this.#ports)
      if (!held.proven && (ids.has(id) || keys.has(keyOf(held)))) this.#forget(id)
    for (const one of owned) this.#remember(one)
  }

  #remember({ id, protocol, port }: OwnedPort): void {
    const { first, last } = this.#range ?? { first: 1, last: 65_535 }
    const taken = this.#taken[protocol]
    if (port < first || port > last || taken.has(port) || this.#ports.has(id)) return
    this.#ports.set(id, { port, protocol, proven: false })
    this.#away.add(id)
    taken.add(port)
  }

  #forget(id: string): void {
    const held = this.#ports.get(id)
    if (held !== undefined) this.#taken[held.protocol].delete(held.port)
    this.#ports.delete(id)
    this.#away.delete(id)
  }

  #changed(): void {
    this.#keeper?.changed(() => {
      const away: HeldPort[] = []
      for (const id of this.#away) {
        const held = this.#ports.get(id)
        if (held !== undefined) away.push({ id, ...portOf(held), away: true })
      }
      const present: HeldPort[] = []
      for (const [id, held] of this.#ports) {
        if (!this.#away.has(id)) present.push({ id, ...portOf(held), away: false })
      }
      return [...away, ...present]
    })
  }

  /** That of an earlier process if it is still free; else a free one; else another's. */
  async #newPort(
    id: string,
    protocol: Protocol,
    addresses: readonly string[],
  ): Promise<number | undefined> {
    const known = this.#ports.get(id)
    if (known !== undefined) {
      const mayStay = known.protocol === protocol
      if (mayStay && (await this.#isFree(known, addresses))) return known.port
      this.#forget(id)
    }
    return (await this.#find(protocol, addresses)) ?? this.#takeBack(protocol, addresses)
  }

  async #isFree(
    { protocol, port }: Held,
    addresses: readonly string[],
  ): Promise<boolean> {
    return (await this.#tryPort(protocol, addresses, port)) !== undefined
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

  async #takeBack(
    protocol: Protocol,
    addresses: readonly string[],
  ): Promise<number | undefined> {
    for (const id of this.#away) {
      const held = this.#ports.get(id)
      if (held?.protocol !== protocol) continue
      const free = held.proven || (await this.#isFree(held, addresses))
      this.#forget(id)
      if (free) return held.port
    }
    return undefined
  }
}

interface Held {
  readonly port: number
  readonly protocol: Protocol
  /** False: an earlier process had it, or it was lost, and whether it is free is not known. */
  readonly proven: boolean
}

const portOf = ({ port, protocol }: Held): Pick<HeldPort, 'port' | 'protocol'> => ({
  port,
  protocol,
})
