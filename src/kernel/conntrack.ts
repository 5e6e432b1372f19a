import { Backoff } from '../util/backoff.ts'
import type { Clock, Timer } from '../util/clock.ts'
import { Turns } from '../util/turns.ts'
import type { Probe } from './probe.ts'
import { cidrContains, parseCidr } from '../util/cidr.ts'
import { ipFamilies, type IpFamily, isLoopback } from '../util/ip.ts'
import {
  DoomedEntries,
  type EntryFilter,
  type FlowHost,
  type FlowVip,
  isServed,
} from './conntrack-plan.ts'
import { proxyAddressOf } from './proxy-address.ts'
import { streamTool, type StreamTool, ToolError } from './run-tool.ts'

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

/** Makes the kernel forget where packets of known flows go (conntrack(8)). */
export interface ConntrackCleaner {
  /** Whether entries can be removed here; never rejects. */
  probe(): Promise<Probe>
  /**
   * Removes the entries of flows that clients sent to one of these VIPs and that go
   * elsewhere than it says, so that the next packet is led by the rules of now. What a
   * later call says of a VIP counts for the earlier ones too. What could not be removed is
   * tried again by itself. Gives how many entries this turn has removed. Never rejects.
   */
  forgetFlows(vips: readonly FlowVip[]): Promise<number>
  /** Why flows may go on that should have ended; '' when none does. */
  readonly problem: string
}

export const conntrackCleaner = (deps: ConntrackDeps): ConntrackCleaner =>
  new Cleaner(deps)

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

class Cleaner implements ConntrackCleaner {
  readonly #stream: StreamTool
  readonly #deps: ConntrackDeps
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

  async probe(): Promise<Probe> {
    let version = 'conntrack'
    try {
      await this.#stream('conntrack', ['--version'], line => {
        version = line.replace(/^conntrack v(\S+).*/, 'conntrack $1')
      })
      await this.#stream('conntrack', ['--count'], () => {})
      return { usable: true, detail: version }
    } catch (error) {
      return { usable: false, detail: (error as Error).message }
    }
  }

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
    this.#say([...failures].join('; '))
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
    const args = `--dump ${wordsOf(kind)}`.split(' ')
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
    const calls = filters.map(filter => `-D ${wordsOf(kind)} ${filter}`)
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

  #say(problem: string): void {
    if (problem === this.problem) return
    this.problem = problem
    this.#deps.failed(problem)
  }
}

const tooMany =
  'conntrack: there are entries of more VIPs than can be removed at once; the others are tried again'

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
const wordsOf = ({ family, protocol }: FlowKind): string =>
  `-p ${protocol.toLowerCase()} -f ${family.toLowerCase()}${protocol === 'TCP' ? ' --state SYN_SENT' : ''}`

/** Each run removes what comes before the entry that has gone: of 100 000 that expire, few are hit. */
const mostRuns = 50

/**
 * Carries out a run of `conntrack -D` until nothing that it is to remove is left. The tool ends
 * at the first entry that expires between its look and its delete (ENOENT), with all others left.
 * Finding none, which it answers with exit code 1 too, is no failure. Rejects with the tool's
 * other errors, and when entries go faster than 50 runs can follow.
 */
export const removeEntries = async (run: () => Promise<unknown>): Promise<void> => {
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
