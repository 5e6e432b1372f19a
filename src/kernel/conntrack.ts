import { Backoff } from '../util/backoff.ts'
import type { Clock, Timer } from '../util/clock.ts'
import { Turns } from '../util/turns.ts'
import { cidrContains, parseCidr, type Cidr } from '../util/cidr.ts'
import { ipFamilies, type IpFamily, isLoopback } from '../util/ip.ts'
import { proxyAddressOf } from './proxy-address.ts'
import { streamTool, type StreamTool, ToolError, type RunTool } from './run-tool.ts'
import { forEachYielding } from '../util/list-diff.ts'

export interface ConntrackDeps {
  readonly clock: Clock
  readonly stream?: StreamTool
  /**
   * Where DNAT leads all of the family's VIPs: by it Usher's flows are known from those of others.
   * Undefined where it leads to endpoints.
   */
  readonly proxyAddress: (family: IpFamily) => string | undefined
  /** Those of the host's interfaces; loopback's need not be named. */
  readonly ownAddresses: (family: IpFamily) => readonly string[]
  /** Those of them that are in one answer node ports; undefined: all do. */
  readonly nodePortCidrs: (family: IpFamily) => readonly string[] | undefined
  /**
   * Called with why entries could not be removed, once for as long as it stays the same; with
   * '' when it works again.
   */
  readonly failed: (problem: string) => void
}

/** Calls of a tool that can't read filters from its standard input (before 1.4.7). */
const mostCalls = 32
/**
 * Milliseconds of such work for one family, altogether and in one call of the tool, after which
 * what has come meanwhile may go first.
 */
const mostMs = 10_000
const callMs = 300
const timeoutMs = 60_000
/** Milliseconds until the tool is tried again after it has failed; doubled each time. */
const retryMs = { firstMs: 1000, mostMs: 60_000 }

interface Outcome {
  readonly removed: number
  /** Filters for which there was no time. */
  readonly left: number
  /** Not done: clients of other VIPs wait since this was begun. */
  readonly isOvertaken: boolean
}

/** Makes the kernel forget where packets of known flows go (conntrack(8)). */
export class ConntrackCleaner {
  readonly #stream: StreamTool
  readonly #deps: ConntrackDeps
  /** Why flows may go on that should have ended; '' when none does. */
  problem = ''
  readonly #turns = new Turns()
  /** What is wanted of each VIP and not done yet: the last word counts. */
  readonly #wanted = new Map<string, FlowVip>()
  /** Whether the tool takes many filters in one call; undefined until it was asked. */
  #loads: boolean | undefined
  /**
   * What one filter costs: the tool reads the whole hash table for each, empty buckets too, of
   * which there are 262,144 on a host with 4 GB (nf_conntrack_buckets): 25 ms.
   */
  #walkMs = 1
  readonly #backoff = new Backoff(retryMs)
  #retry: Timer | undefined

  constructor(deps: ConntrackDeps) {
    this.#deps = deps
    this.#stream = deps.stream ?? streamTool
  }

  /**
   * Removes the entries of flows that clients sent to one of these VIPs and that go
   * elsewhere than it says, so that the next packet is led by the rules of now. What a
   * later call says of a VIP counts for the earlier ones too. What could not be removed is
   * tried again by itself. Gives how many entries this turn has removed. Never rejects.
   */
  forgetFlows(vips: readonly FlowVip[]): Promise<number> {
    if (vips.length === 0) return Promise.resolve(0)
    for (const vip of vips) this.#wanted.set(nameOf(vip), vip)
    return this.#turns.take(() => this.#forgetAll())
  }

  /** First where flows are to go elsewhere: clients of a VIP that is gone are refused anyway. */
  async #forgetAll(): Promise<number> {
    const vips = [...this.#wanted.values()]
    this.#wanted.clear()
    const served = vips.filter(isServed)
    const gone = vips.filter(vip => !isServed(vip))
    let [removed, left] = [0, 0]
    const failures = new Set<string>()
    for (const some of [served, gone]) {
      for (const { family, protocol } of kinds) {
        const ofKind = some.filter(
          vip => vip.family === family && vip.protocol === protocol,
        )
        try {
          const outcome = await this.#forget({ family, protocol }, ofKind)
          removed += outcome.removed
          left += outcome.left
          // The call that overtakes has a turn of its own.
          if (outcome.isOvertaken || outcome.left > 0) this.#putBack(ofKind)
        } catch (error) {
          failures.add((error as Error).message)
          this.#putBack(ofKind)
        }
      }
    }
    if (left > 0) failures.add(tooMany)
    this.#report([...failures].join('; '))
    if (failures.size > 0) this.#tryAgain()
    else this.#backoff.reset()
    return removed
  }

  #putBack(vips: readonly FlowVip[]): void {
    for (const vip of vips)
      if (!this.#wanted.has(nameOf(vip))) this.#wanted.set(nameOf(vip), vip)
  }

  /** A client that goes on sending keeps its entry for ever. */
  #tryAgain(): void {
    const { clock } = this.#deps
    clock.clearTimeout(this.#retry)
    const again = (): void => void this.#turns.take(() => this.#forgetAll())
    this.#retry = clock.setTimeout(again, this.#backoff.next())
    this.#retry.unref?.()
  }

  async #forget(kind: FlowKind, vips: readonly FlowVip[]): Promise<Outcome> {
    if (vips.length === 0) return { removed: 0, left: 0, isOvertaken: false }
    this.#loads ??= await this.#findOut()
    const filters = await this.#filters(kind, vips)
    const proxyAddress = this.#deps.proxyAddress(kind.family)
    if (filters.length <= this.#most() || proxyAddress === undefined)
      return this.#remove(kind, filters)
    // Too many for one by one: all flows to Usher go at once. Those that should have
    // stayed are led the same way again by their next datagram.
    const coarse = await this.#remove(kind, [`-r ${proxyAddress}`])
    const rest = await this.#remove(kind, await this.#filters(kind, vips))
    return { ...rest, removed: coarse.removed + rest.removed }
  }

  /** What picks out the entries of these VIPs that go elsewhere than they should by now. */
  async #filters(
    kind: FlowKind,
    vips: readonly FlowVip[],
  ): Promise<readonly EntryFilter[]> {
    const { clock } = this.#deps
    const doomed = new DoomedEntries(kind.family, vips, this.#host(kind.family))
    const args = `--dump ${argumentsOf(kind)}`.split(' ')
    const began = clock.now()
    await this.#stream('conntrack', args, line => doomed.see(line))
    this.#walkMs = Math.max(1, clock.now() - began)
    // To read a large table takes seconds, in which endpoints come: a flow to one of those
    // is right, and the turn of its own knows the rest.
    doomed.spare(
      [...this.#wanted.values()].filter(({ protocol }) => protocol === kind.protocol),
    )
    return doomed.filters()
  }

  #host(family: IpFamily): FlowHost {
    const { ownAddresses, nodePortCidrs, proxyAddress } = this.#deps
    const own = new Set(ownAddresses(family))
    const cidrs = nodePortCidrs(family)?.flatMap(text => parseCidr(text) ?? [])
    return {
      proxyAddress: proxyAddress(family) ?? proxyAddressOf[family],
      nodePorts: address => {
        if (!own.has(address) && !isLoopback(address)) return undefined
        const answers = cidrs?.some(one => cidrContains(one, address)) ?? true
        return answers ? 'answered' : 'silent'
      },
    }
  }

  /** How many filters may be worked off. */
  #most(): number {
    return this.#loads === true ? Math.floor(mostMs / this.#walkMs) : mostCalls
  }

  async #remove(kind: FlowKind, filters: readonly EntryFilter[]): Promise<Outcome> {
    const some = filters.slice(0, this.#most())
    const perCall = this.#loads === true ? Math.ceil(callMs / this.#walkMs) : 1
    let removed = 0
    for (let i = 0; i < some.length; i += perCall) {
      const isOvertaken = [...this.#wanted.values()].some(isServed)
      if (i > 0 && isOvertaken) return { removed, left: 0, isOvertaken }
      removed += await this.#removeTogether(kind, some.slice(i, i + perCall))
    }
    return { removed, left: filters.length - some.length, isOvertaken: false }
  }

  async #removeTogether(
    kind: FlowKind,
    filters: readonly EntryFilter[],
  ): Promise<number> {
    let removed = 0
    const count = (): void => void (removed += 1)
    const calls = filters.map(filter => `-D ${argumentsOf(kind)} ${filter}`)
    const [only = ''] = calls
    const options = { input: `${calls.join('\n')}\n`, timeoutMs }
    await removeEntries(() =>
      this.#loads === true
        ? this.#stream(...loadInput, count, options)
        : this.#stream('conntrack', only.split(' '), count),
    )
    return removed
  }

  /** Whether the tool takes many filters in one call, which it does since 1.4.7. */
  async #findOut(): Promise<boolean> {
    await this.#stream('conntrack', ['--version'], () => {})
    try {
      await this.#stream(...loadInput, () => {})
      return true
    } catch (error) {
      if (!(error instanceof ToolError)) throw error
      if (error.failure === 'missing' || noSuchOption.test(error.stderr)) return false
      throw error
    }
  }

  #report(problem: string): void {
    if (problem === this.problem) return
    this.problem = problem
    this.#deps.failed(problem)
  }
}

const tooMany =
  'conntrack: there are entries of more VIPs than can be removed at once; retrying the others'

/**
 * `-` makes it open /dev/stdin, which fails for a socket (unix(7), ENXIO), and that is what
 * Node gives its children as a pipe. A shell makes a real one.
 */
const loadInput = ['sh', ['-c', 'cat | conntrack --load-file -']] as const

/** What getopt says. */
const noSuchOption = /(invalid|unrecognized|unknown|ambiguous) option/i

const nameOf = ({ family, protocol, address = '*', port }: FlowVip): string =>
  `${family} ${protocol} ${address} ${port}`

/** What the tool is asked for at once. */
type FlowKind = Pick<FlowVip, 'family' | 'protocol'>

const kinds: readonly FlowKind[] = (['UDP', 'TCP'] as const).flatMap(protocol =>
  ipFamilies.map(family => ({ family, protocol })),
)

/**
 * A SYN that met no rule for a moment has an entry by which it goes astray when it is sent again,
 * for 120 s (nf_conntrack_tcp_timeout_syn_sent). What has been answered stays as it is.
 */
const argumentsOf = ({ family, protocol }: FlowKind): string =>
  `-p ${protocol.toLowerCase()} -f ${family.toLowerCase()}${protocol === 'TCP' ? ' --state SYN_SENT' : ''}`

/** Each run removes what comes before the entry that has gone: of 100 000 that expire, few are hit. */
const mostRuns = 50

/**
 * Carries out a run of `conntrack -D` until nothing that it is to remove is left. The tool ends
 * at the first entry that expires between its look and its delete (ENOENT), with all others left.
 * Finding none, which it answers with exit code 1 too, is no failure. Rejects with the tool's
 * other errors, and when entries go faster than 50 runs can follow.
 */
const removeEntries = async (run: () => Promise<unknown>): Promise<void> => {
  for (let runs = 1; ; runs += 1) {
    try {
      await run()
      return
    } catch (error) {
      if (!(error instanceof ToolError)) throw error
      // Asked first: an earlier filter of the same run may have found none.
      if (hasGone.test(error.stderr) && runs < mostRuns) continue
      if (noneThere.test(error.stderr)) return
      throw error
    }
  }
}

const noneThere = /\b0 flow entries have been deleted/
const hasGone = /such conntrack doesn't exist/

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
  /** With nobody that serves: Usher led flows to the proxy address alone, and others are others'. */
  readonly onlyRelayed?: true
}

/** Of a host, what it takes to know whose an entry is. */
export interface FlowHost {
  /** Whether node ports are answered on an address of the host's; undefined: it is none. */
  readonly nodePorts: (address: string) => 'answered' | 'silent' | undefined
  readonly proxyAddress: string
}

interface FlowDestination {
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
      return isLed && (isRelayed || vip.onlyRelayed !== true) ? pickOf(source) : ''
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

const isServed = ({ to }: FlowVip): boolean => to !== undefined && to.length > 0

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

const udp = '-p udp'
/**
 * A handshake that has reached one side only; and a connection that has ended: its client may
 * use the same port again at once (tcp_tw_reuse, ip-sysctl), and for two minutes the kernel
 * takes that for the old flow.
 */
const halfOpenOrOver = ['SYN_SENT', 'SYN_RECV', 'TIME_WAIT', 'CLOSE'].map(
  state => `-p tcp --state ${state}`,
)
const anyTcp = '-p tcp'

/**
 * Removes conntrack's entries of half-open TCP connections, and of UDP flows, to the proxy
 * address: a SYN that is sent again goes by its entry, not by the present rules. Established
 * connections are spared: an Usher that is ending may still serve them. To be called when no
 * rule leads there any more, or others do, and before the rules go that silence refusals from
 * there. UDP has no state to distinguish by: the next datagram of a flow goes by the rules.
 *
 * Returns why it could not be done. Never rejects for a tool that fails: without conntrack(8)
 * those clients go where they went.
 */
export const forgetWaiting = (
  run: RunTool,
  family: IpFamily,
): Promise<ToolError | undefined> => forget(run, family, [...halfOpenOrOver, udp])

/** The same for established connections: when it is certain that no process serves them. */
export const forgetProxyFlows = (
  run: RunTool,
  family: IpFamily,
): Promise<ToolError | undefined> => forget(run, family, [anyTcp, udp])

/** Each reads the whole table, which is large where flows are many: all at once. */
const forget = async (
  run: RunTool,
  family: IpFamily,
  entries: readonly string[],
): Promise<ToolError | undefined> => {
  const all = await Promise.all(entries.map(one => forgetKind(run, family, one)))
  return all.find(failure => failure !== undefined)
}

const forgetKind = async (
  run: RunTool,
  family: IpFamily,
  kind: string,
): Promise<ToolError | undefined> => {
  const call = `-D -f ${family.toLowerCase()} ${kind} --reply-src ${proxyAddressOf[family]}`
  try {
    await removeEntries(() => run('conntrack', call.split(' ')))
    return undefined
  } catch (error) {
    if (!(error instanceof ToolError)) throw error
    return error
  }
}
