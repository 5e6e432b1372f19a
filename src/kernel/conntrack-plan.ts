import { type Cidr, cidrContains, parseCidr } from '../util/cidr.ts'
import type { IpFamily } from '../util/ip.ts'
import { forEachYielding } from '../util/yielding.ts'

/**
 * Where clients of a VIP send to; no address: a node port, on those of the host's addresses that
 * answer node ports. Of TCP only handshakes that nobody has answered yet are flows.
 */
export interface FlowVip {
  readonly family: IpFamily
  readonly protocol: 'UDP' | 'TCP'
  /** Canonical. */
  readonly address: string | undefined
  readonly port: number
  /**
   * Where its flows may go now: those that go there already stay. None: nobody serves it, or it is
   * gone; then those that were led elsewhere end, and what was led nowhere is not Usher's.
   */
  readonly to?: readonly FlowDestination[] | undefined
  /** Canonical CIDRs: what was led for other clients ends, too. Undefined: all are let in. */
  readonly clients?: readonly string[] | undefined
  /** With nobody that serves: its flows were led to the proxy address. Otherwise all others were. */
  readonly relayed?: true
}

/** Of a host, what it takes to know whose an entry is. */
export interface FlowHost {
  /** Whether node ports are answered on an address of the host's; undefined: it is none. */
  readonly nodePorts: (address: string) => 'answered' | 'silent' | undefined
  readonly proxyAddress: string
}

export interface FlowDestination {
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

/** By address, what picks out flows to it: by where they go. */
type Doomed = Map<string, Set<string>>

/** The rest is made for VIPs with entries: of thousands few have any. */
interface Known {
  readonly vip: FlowVip
  /** As `vipKey` has them. */
  right?: ReadonlySet<string>
  clients?: readonly Cidr[]
}

/**
 * Which of the kernel's entries of one family belong to the wanted VIPs and go where they
 * should not. Takes each entry once; holds no more than there are VIPs, and entries at the
 * ports of VIPs.
 */
export class DoomedEntries {
  readonly #family: IpFamily
  readonly #host: FlowHost
  /** As `vipKey` has them. */
  readonly #vips = new Map<string, Known>()
  readonly #ports = new Set<number>()
  readonly #addresses = new Set<string>()
  /** By port. */
  readonly #doomed = new Map<number, Doomed>()
  /** At ports of VIPs: others that are to stay, maybe beside doomed ones of the same VIP. */
  readonly #kept = new Map<number, Set<string>>()
  /** All addresses with an entry at the port of a VIP, or of a VIP, that is to stay. */
  readonly #keptAddresses = new Set<string>()
  /** How many entries there are, doomed or not. */
  seen = 0

  /** `vips` are of one protocol. */
  constructor(family: IpFamily, vips: readonly FlowVip[], host: FlowHost) {
    this.#family = family
    this.#host = host
    for (const vip of vips.filter(one => one.family === family)) {
      this.#vips.set(vipKey(vip.address, vip.port), { vip })
      this.#ports.add(vip.port)
      if (vip.address !== undefined) this.#addresses.add(vip.address)
    }
  }

  /** `line` is one of `conntrack --dump`'s. */
  see(line: string): void {
    const entry = destinationOf(line)
    if (entry === undefined) return
    this.seen += 1
    const pick = this.#ports.has(entry.port) ? this.#pickOf(line, entry) : ''
    if (pick === '') this.#keep(entry)
    else this.#doom(entry, pick)
  }

  /** What picks the entry out among those of its destination; '' where it is to stay. */
  #pickOf(line: string, { address, port }: FlowDestination): string {
    const known = this.#vipAt(address, port)
    if (known === undefined) return ''
    const { vip } = known
    const source = replySourceOf(line)
    const isAnswered =
      vip.address !== undefined || this.#host.nodePorts(address) === 'answered'
    if (!isServed(vip) || !isAnswered) {
      const isLed = source !== vipKey(address, port)
      const isRelayed = source.startsWith(`${this.#host.proxyAddress} `)
      return isLed && isRelayed === (vip.relayed === true) ? pickOf(source) : ''
    }
    known.right ??= new Set(vip.to?.map(one => vipKey(one.address, one.port)))
    if (!known.right.has(source)) return pickOf(source)
    const client = clientOf(line)
    // The load balancer's own address is this node, where it has that address.
    if (vip.clients === undefined || client === address) return ''
    known.clients ??= vip.clients.flatMap(text => parseCidr(text) ?? [])
    const isLetIn = known.clients.some(each => cidrContains(each, client))
    return isLetIn ? '' : `${pickOf(source)} -s ${client}`
  }

  /** An address goes before a node port, where it is served: as in the rules. */
  #vipAt(address: string, port: number): Known | undefined {
    const exact = this.#vips.get(vipKey(address, port))
    if (exact !== undefined && isServed(exact.vip)) return exact
    const nodePort =
      this.#host.nodePorts(address) && this.#vips.get(vipKey(undefined, port))
    return nodePort && (exact === undefined || isServed(nodePort.vip)) ? nodePort : exact
  }

  /** They may have come to be right since they were taken in: then they stay. */
  spare(vips: readonly FlowVip[]): void {
    for (const { family, address, port, to = [] } of vips) {
      const doomed = this.#doomed.get(port)
      if (family !== this.#family || doomed === undefined) continue
      const right = to.map(one => pickOf(vipKey(one.address, one.port)))
      for (const [one, picks] of doomed) {
        if (this.#vipAt(one, port)?.vip.address !== address) continue
        const spared = right.filter(pick => picks.delete(pick))
        if (spared.length > 0) this.#keep({ address: one, port })
        if (picks.size === 0) doomed.delete(one)
      }
    }
  }

  #keep({ address, port }: FlowDestination): void {
    if (this.#ports.has(port)) addTo(this.#kept, port, address)
    if (this.#addresses.has(address)) this.#keptAddresses.add(address)
  }

  #doom({ address, port }: FlowDestination, pick: string): void {
    const doomed = this.#doomed.get(port) ?? new Map<string, Set<string>>()
    const picks = doomed.get(address) ?? new Set()
    this.#doomed.set(port, doomed.set(address, picks.add(pick)))
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
  [address, picks]: readonly [string, ReadonlySet<string>],
): readonly EntryFilter[] =>
  Array.from(picks, pick => `-d ${address} --dport ${port} ${pick}`)

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
const destinationOf = (line: string): FlowDestination | undefined => {
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

export const isServed = ({ to }: FlowVip): boolean => to !== undefined && to.length > 0

/** `source` is as `vipKey` has it. */
const pickOf = (source: string): string =>
  `-r ${source.replace(' ', ' --reply-port-src ')}`

const clientOf = (line: string): string => / src=(\S+)/.exec(line)?.[1] ?? ''

const vipKey = (address: string | undefined, port: number): string =>
  `${address ?? '*'} ${port}`

const addTo = (sets: Map<number, Set<string>>, key: number, value: string): void => {
  const set = sets.get(key)
  if (set === undefined) sets.set(key, new Set([value]))
  else set.add(value)
}
