import { parseCidr } from '../util/cidr.ts'
import type { IpFamily } from '../util/ip.ts'
import { forEachYielding } from '../util/yielding.ts'

/** Where clients of a UDP VIP send to; no address: a node port, on any address. */
export interface UdpVip {
  readonly family: IpFamily
  /** Canonical. */
  readonly address: string | undefined
  readonly port: number
  /**
   * Where its flows may go now: those that go there already stay, for as long as none of
   * the VIP has to go. Undefined: nowhere.
   */
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

const filterOf = ({ address, port }: Omit<UdpVip, 'family'>): EntryFilter =>
  address === undefined ? `--dport ${port}` : `-d ${address} --dport ${port}`

/**
 * Which of the kernel's entries of one family belong to the wanted VIPs. Told of each
 * entry once; holds no more than there are VIPs, and entries at the ports of VIPs.
 */
export class DoomedEntries {
  readonly #family: IpFamily
  readonly #nodePorts = new Set<number>()
  /** By port, the addresses. */
  readonly #wanted = new Map<number, Set<string>>()
  readonly #addresses = new Set<string>()
  /** By VIP, as `vipKey` has it, where its flows go when they are right. */
  readonly #right = new Map<string, ReadonlySet<string>>()
  readonly #doomedNodePorts = new Set<number>()
  readonly #doomed = new Map<number, Set<string>>()
  /** At ports of VIPs: others that are to stay. */
  readonly #kept = new Map<number, Set<string>>()
  /** Of the VIPs' addresses those with an entry, at any port, that is to stay. */
  readonly #keptAddresses = new Set<string>()
  /** How many entries there are, doomed or not. */
  seen = 0

  constructor(family: IpFamily, vips: readonly UdpVip[]) {
    this.#family = family
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
    const wanted = this.#wanted.get(port)
    const isVip = wanted?.has(address) === true
    if (isVip || this.#nodePorts.has(port)) {
      const right = this.#right.get(vipKey(isVip ? address : undefined, port))
      if (right?.has(goesTo(line)) === true) this.#keep(address, port)
      else if (isVip) addTo(this.#doomed, port, address)
      else this.#doomedNodePorts.add(port)
    } else if (wanted !== undefined || this.#addresses.has(address)) {
      this.#keep(address, port)
    }
  }

  #keep(address: string, port: number): void {
    if (this.#wanted.has(port)) addTo(this.#kept, port, address)
    if (this.#addresses.has(address)) this.#keptAddresses.add(address)
  }

  /**
   * What picks the doomed entries out, and nothing else of what was seen. Each filter
   * makes the tool read the whole table, so that many VIPs are drawn together into blocks
   * in which nothing is to stay. A flow to another VIP in a block that begins in just this
   * moment may go too; its next datagram makes a new entry.
   */
  async filters(): Promise<readonly EntryFilter[]> {
    const nodePorts = [...this.#doomedNodePorts].map(port =>
      filterOf({ address: undefined, port }),
    )
    const exact = [...this.#doomed].flatMap(([port, addresses]) =>
      [...addresses].map(address => filterOf({ address, port })),
    )
    const few = exact.length <= mostExact && exact.length * this.seen <= mostReads
    if (few) return [...nodePorts, ...exact]
    const whole = this.#wholeAddresses()
    const blocks = new Set<EntryFilter>()
    for (const [port, addresses] of this.#doomed) {
      const left = [...addresses].filter(address => !whole.has(address))
      // A VIP with flows of both kinds loses all of them.
      const kept = [...(this.#kept.get(port) ?? [])].filter(one => !addresses.has(one))
      for (const block of await blocksAround(this.#family, left, kept))
        blocks.add(`-d ${block} --dport ${port}`)
    }
    return [...nodePorts, ...[...whole].map(address => `-d ${address}`), ...blocks]
  }

  /** Addresses with doomed entries at several ports and none that is to stay. */
  #wholeAddresses(): ReadonlySet<string> {
    const [once, often] = [new Set<string>(), new Set<string>()]
    for (const addresses of this.#doomed.values()) {
      for (const address of addresses) {
        if (this.#keptAddresses.has(address)) continue
        ;(once.has(address) ? often : once).add(address)
      }
    }
    // Many addresses with the same few ports are fewer blocks, by port.
    return often.size <= this.#doomed.size ? often : new Set()
  }
}

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
const destinationOf = (line: string): { address: string; port: number } | undefined => {
  const dst = line.indexOf(' dst=')
  const dport = line.indexOf(' dport=', dst)
  if (dst < 0 || dport < 0) return undefined
  const address = line.slice(dst + 5, line.indexOf(' ', dst + 5))
  return { address, port: Number.parseInt(line.slice(dport + 7, dport + 12), 10) }
}

/** From where the reply comes: the second `src=` and `sport=`. */
const goesTo = (line: string): string => {
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
