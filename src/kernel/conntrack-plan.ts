import { parseCidr } from '../util/cidr.ts'
import type { IpFamily } from '../util/ip.ts'
import { forEachYielding } from '../util/yielding.ts'

/** Where clients of a UDP VIP send to; no address: a node port, on any of the host's. */
export interface UdpVip {
  readonly family: IpFamily
  /** Canonical. */
  readonly address: string | undefined
  readonly port: number
  /** Where its flows may go now: those that go there already stay. Undefined: nowhere. */
  readonly to?: readonly UdpDestination[] | undefined
}

export interface UdpDestination {
  /** Canonical. */
  readonly address: string
  readonly port: number
}

/** Arguments of `conntrack` that pick entries out, as in `-d 10.96.0.0/24 --dport 53`. */
export type EntryFilter = string

/** So many are written one by one, and so many entries read for it; else they are drawn
 * together. */
const mostExact = 32
const mostReads = 100_000
/** Blocks that are looked at, widest first; no wider, as flows begin at any moment. */
const prefixLengths: Readonly<Record<IpFamily, readonly number[]>> = {
  IPv4: [12, 16, 20, 24, 26, 28, 30, 32],
  IPv6: [64, 96, 104, 108, 112, 116, 120, 122, 124, 126, 128],
}

/** By address, the places (as `vipKey` has them) to which flows to it go. */
type Doomed = Map<string, Set<string>>

/**
 * Which of the kernel's entries of one family belong to the wanted VIPs and go where they
 * should not. Takes each entry once; holds no more than there are VIPs, and entries at the
 * ports of VIPs.
 */
export class DoomedEntries {
  readonly #family: IpFamily
  readonly #isOwn: (address: string) => boolean
  readonly #nodePorts = new Set<number>()
  /** By port, the addresses. */
  readonly #wanted = new Map<number, Set<string>>()
  readonly #addresses = new Set<string>()
  /** By VIP, as `vipKey` has it, where its flows go when they are right. */
  readonly #right = new Map<string, ReadonlySet<string>>()
  /** By port. */
  readonly #doomed = new Map<number, Doomed>()
  /** At ports of VIPs: others that are to stay, maybe beside doomed ones of the same VIP. */
  readonly #kept = new Map<number, Set<string>>()
  /** All addresses with an entry at the port of a VIP, or of a VIP, that is to stay. */
  readonly #keptAddresses = new Set<string>()
  /** How many entries there are, doomed or not. */
  seen = 0

  /**
   * `isOwn`: whether an address is this host's. Only there are node ports: what a pod sends
   * to such a port elsewhere is not Usher's.
   */
  constructor(
    family: IpFamily,
    vips: readonly UdpVip[],
    isOwn: (address: string) => boolean,
  ) {
    this.#family = family
    this.#isOwn = isOwn
    for (const { address, port, to } of vips.filter(vip => vip.family === family)) {
      if (to !== undefined && to.length > 0)
        this.#right.set(
          vipKey(address, port),
          new Set(to.map(one => vipKey(one.address, one.port))),
        )
      if (address === undefined) this.#nodePorts.add(port)
      else {
        addTo(this.#wanted, port, address)
        this.#addresses.add(address)
      }
    }
  }

  /** `line` is one of `conntrack --dump`'s. */
  see(line: string): void {
    const entry = destinationOf(line)
    if (entry === undefined) return
    this.seen += 1
    const { address, port } = entry
    const isVip = this.#wanted.get(port)?.has(address) === true
    if (isVip || (this.#nodePorts.has(port) && this.#isOwn(address))) {
      const source = replySourceOf(line)
      const right = this.#right.get(vipKey(isVip ? address : undefined, port))
      if (right?.has(source) !== true) return this.#doom(entry, source)
    }
    this.#keep(entry)
  }

  /** They may have come to be right since they were taken in: then they stay. */
  spare(vips: readonly UdpVip[]): void {
    for (const { family, address, port, to = [] } of vips) {
      const doomed = this.#doomed.get(port)
      if (family !== this.#family || doomed === undefined) continue
      const right = to.map(one => vipKey(one.address, one.port))
      const isVip = (one: string): boolean => this.#wanted.get(port)?.has(one) === true
      for (const [one, sources] of doomed) {
        if (address === undefined ? isVip(one) : one !== address) continue
        const spared = right.filter(source => sources.delete(source))
        if (spared.length > 0) this.#keep({ address: one, port })
        if (sources.size === 0) doomed.delete(one)
      }
    }
  }

  #keep({ address, port }: UdpDestination): void {
    if (this.#wanted.has(port) || this.#nodePorts.has(port))
      addTo(this.#kept, port, address)
    if (this.#addresses.has(address)) this.#keptAddresses.add(address)
  }

  #doom({ address, port }: UdpDestination, source: string): void {
    const doomed = this.#doomed.get(port) ?? new Map<string, Set<string>>()
    const sources = doomed.get(address) ?? new Set()
    this.#doomed.set(port, doomed.set(address, sources.add(source)))
  }

  /**
   * What picks the doomed entries out, and nothing else of what was seen. Each filter
   * makes the tool read the whole table, so that many VIPs are drawn together into blocks
   * in which nothing is to stay. A flow to another VIP in a block that begins in just this
   * moment may go too; its next datagram makes a new entry.
   */
  async filters(): Promise<readonly EntryFilter[]> {
    const exact = [...this.#doomed].flatMap(([port, doomed]) =>
      [...doomed].flatMap(each => exactFilters(port, each)),
    )
    const few = exact.length <= mostExact && exact.length * this.seen <= mostReads
    if (few) return exact
    const whole = this.#wholeAddresses()
    const filters = new Set<EntryFilter>([...whole].map(address => `-d ${address}`))
    for (const [port, doomed] of this.#doomed) {
      const kept = this.#kept.get(port) ?? new Set()
      const left = [...doomed].filter(([address]) => !whole.has(address))
      // Of a VIP with flows of both kinds those that are right stay.
      for (const each of left.filter(([address]) => kept.has(address)))
        for (const filter of exactFilters(port, each)) filters.add(filter)
      const lost = left.map(([address]) => address).filter(each => !kept.has(each))
      for (const block of await blocksAround(this.#family, lost, kept))
        filters.add(`-d ${block} --dport ${port}`)
    }
    return [...filters]
  }

  /** Addresses with doomed entries at several ports and none that is to stay. */
  #wholeAddresses(): ReadonlySet<string> {
    const [once, often] = [new Set<string>(), new Set<string>()]
    for (const doomed of this.#doomed.values()) {
      for (const address of doomed.keys()) {
        // Of a node's own address it is not known what else goes there.
        if (!this.#addresses.has(address) || this.#keptAddresses.has(address)) continue
        ;(once.has(address) ? often : once).add(address)
      }
    }
    // Many addresses with the same few ports are fewer blocks, by port.
    return often.size <= this.#doomed.size ? often : new Set()
  }
}

const exactFilters = (
  port: number,
  [address, sources]: readonly [string, ReadonlySet<string>],
): readonly EntryFilter[] =>
  Array.from(sources, source => {
    const [from, sourcePort] = source.split(' ')
    return `-d ${address} --dport ${port} -r ${from} --reply-port-src ${sourcePort}`
  })

/** Blocks that hold all of `doomed` and nothing of `kept`, each as wide as it can be. */
const blocksAround = async (
  family: IpFamily,
  doomed: readonly string[],
  kept: Iterable<string>,
): Promise<ReadonlySet<string>> => {
  const lengths = prefixLengths[family]
  const spared = new Set<string>()
  await forEachYielding(kept, address => {
    for (const length of lengths) spared.add(blockOf(address, length))
  })
  const blocks = new Set<string>()
  await forEachYielding(doomed, address => {
    for (const length of lengths) {
      const block = blockOf(address, length)
      if (spared.has(block)) continue
      blocks.add(block)
      return
    }
  })
  return blocks
}

const blockOf = (address: string, length: number): string =>
  parseCidr(`${address}/${length}`)?.text ?? address

/** Where the client sent to: the first `dst=` and `dport=`; the second are the reply's. */
const destinationOf = (line: string): UdpDestination | undefined => {
  const dst = line.indexOf(' dst=')
  const dport = line.indexOf(' dport=', dst)
  if (dst < 0 || dport < 0) return undefined
  const address = line.slice(dst + 5, line.indexOf(' ', dst + 5))
  return { address, port: Number.parseInt(line.slice(dport + 7, dport + 12), 10) }
}

/** Where it goes, from where the reply comes: the second `src=` and `sport=`. */
const replySourceOf = (line: string): string => {
  const src = line.lastIndexOf(' src=')
  const sport = line.lastIndexOf(' sport=')
  return vipKey(
    line.slice(src + 5, line.indexOf(' ', src + 5)),
    Number.parseInt(line.slice(sport + 7, sport + 12), 10),
  )
}

const vipKey = (address: string | undefined, port: number): string =>
  `${address ?? '*'} ${port}`

const addTo = (sets: Map<number, Set<string>>, key: number, value: string): void => {
  const set = sets.get(key)
  if (set === undefined) sets.set(key, new Set([value]))
  else set.add(value)
}
