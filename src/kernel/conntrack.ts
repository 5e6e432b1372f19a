import { Turns } from '../util/turns.ts'
import type { Probe } from './probe.ts'
import { ipFamilies, type IpFamily, isLoopback } from '../util/ip.ts'
import { DoomedEntries, type EntryFilter, type UdpVip } from './conntrack-plan.ts'
import { ToolError } from './run-tool.ts'
import { streamTool, type StreamTool } from './stream-tool.ts'

export interface ConntrackDeps {
  readonly stream?: StreamTool
  /** Where DNAT leads the family's VIPs, which tells Usher's flows from those of others. */
  readonly proxyAddress: (family: IpFamily) => string | undefined
  /** Those of the host's interfaces, where node ports are; loopback's need not be named. */
  readonly ownAddresses: (family: IpFamily) => readonly string[]
  /**
   * Told why entries could not be removed, once for as long as it stays the same; with ''
   * when it works again.
   */
  readonly failed: (problem: string) => void
}

/** Makes the kernel forget where datagrams of known flows go (conntrack(8)). */
export interface ConntrackCleaner {
  /** Whether entries can be removed here; never rejects. */
  probe(): Promise<Probe>
  /**
   * Removes the entries of UDP flows that clients sent to one of these VIPs and that go
   * elsewhere than it says, so that the next datagram is led by the rules of now. What a
   * later call says of a VIP counts for the earlier ones too. Gives how many those were.
   * Never rejects.
   */
  forgetUdp(vips: readonly UdpVip[]): Promise<number>
}

export const conntrackCleaner = (deps: ConntrackDeps): ConntrackCleaner =>
  new Cleaner(deps)

/** Calls of a tool that can't read filters from its standard input (before 1.4.7). */
const mostCalls = 32
/** Milliseconds: to read the whole table once, for each filter; measured, generously. */
const filterMs = 0.4
const entryMs = 0.003
/** Milliseconds of such work for one family, altogether and in one call of the tool. */
const mostMs = 10_000
const mostMsACall = 5_000
const timeoutMs = 60_000

interface Outcome {
  readonly removed: number
  /** Filters for which there was no time. */
  readonly left: number
}

class Cleaner implements ConntrackCleaner {
  readonly #stream: StreamTool
  readonly #deps: ConntrackDeps
  #problem = ''
  readonly #turns = new Turns()
  /** What is wanted of each VIP and not done yet: the last word counts. */
  readonly #wanted = new Map<string, UdpVip>()
  /** Whether the tool takes many filters in one call; undefined until it was asked. */
  #loads: boolean | undefined

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

  forgetUdp(vips: readonly UdpVip[]): Promise<number> {
    if (vips.length === 0) return Promise.resolve(0)
    for (const vip of vips) this.#wanted.set(nameOf(vip), vip)
    return this.#turns.take(() => this.#forgetAll())
  }

  async #forgetAll(): Promise<number> {
    let [removed, left] = [0, 0]
    const vips = [...this.#wanted.values()]
    this.#wanted.clear()
    try {
      for (const family of ipFamilies) {
        const outcome = await this.#forget(
          family,
          vips.filter(vip => vip.family === family),
        )
        removed += outcome.removed
        left += outcome.left
      }
      this.#say(left === 0 ? '' : tooMany)
    } catch (error) {
      this.#say((error as Error).message)
      // A client that goes on sending keeps its entry for ever: the next call tries again.
      for (const vip of vips)
        if (!this.#wanted.has(nameOf(vip))) this.#wanted.set(nameOf(vip), vip)
    }
    return removed
  }

  async #forget(family: IpFamily, vips: readonly UdpVip[]): Promise<Outcome> {
    if (vips.length === 0) return { removed: 0, left: 0 }
    this.#loads ??= await this.#findOut()
    const doomed = await this.#look(family, vips)
    // To read a large table takes seconds, in which endpoints come: a flow to one of those
    // is right, and the turn of its own knows the rest.
    doomed.spare([...this.#wanted.values()])
    const filters = await doomed.filters()
    const proxyAddress = this.#deps.proxyAddress(family)
    if (filters.length <= this.#most(doomed.seen) || proxyAddress === undefined)
      return this.#remove(family, filters, doomed.seen)
    // Too many for one by one: all flows to Usher go at once. Those that should have
    // stayed are led the same way again by their next datagram.
    const coarse = await this.#remove(family, [`-r ${proxyAddress}`], doomed.seen)
    const others = await this.#look(family, vips)
    others.spare([...this.#wanted.values()])
    const rest = await this.#remove(family, await others.filters(), others.seen)
    return { removed: coarse.removed + rest.removed, left: rest.left }
  }

  async #look(family: IpFamily, vips: readonly UdpVip[]): Promise<DoomedEntries> {
    const own = new Set(this.#deps.ownAddresses(family))
    const isOwn = (address: string): boolean => own.has(address) || isLoopback(address)
    const doomed = new DoomedEntries(family, vips, isOwn)
    const args = ['--dump', '-p', 'udp', '-f', toolFamily(family)]
    await this.#stream('conntrack', args, line => doomed.see(line))
    return doomed
  }

  /** How many filters may be worked off on a table with so many entries. */
  #most(entries: number): number {
    return this.#loads === true ? Math.floor(mostMs / costOf(entries)) : mostCalls
  }

  async #remove(
    family: IpFamily,
    filters: readonly EntryFilter[],
    entries: number,
  ): Promise<Outcome> {
    const some = filters.slice(0, this.#most(entries))
    let removed = 0
    if (this.#loads === true) {
      const size = Math.max(1, Math.floor(mostMsACall / costOf(entries)))
      for (let i = 0; i < some.length; i += size)
        removed += await this.#removeTogether(family, some.slice(i, i + size))
    } else {
      for (const filter of some) removed += await this.#removeOne(family, filter)
    }
    return { removed, left: filters.length - some.length }
  }

  async #removeTogether(
    family: IpFamily,
    filters: readonly EntryFilter[],
  ): Promise<number> {
    let removed = 0
    const lines = filters.map(filter => removal(family, filter).join(' '))
    const options = { input: `${lines.join('\n')}\n`, timeoutMs }
    await removeEntries(() => this.#stream(...loadInput, () => (removed += 1), options))
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

  async #removeOne(family: IpFamily, filter: EntryFilter): Promise<number> {
    let removed = 0
    await removeEntries(() =>
      this.#stream('conntrack', removal(family, filter), () => (removed += 1)),
    )
    return removed
  }

  #say(problem: string): void {
    if (problem === this.#problem) return
    this.#problem = problem
    this.#deps.failed(problem)
  }
}

const tooMany =
  'conntrack: entries of more UDP VIPs than can be removed in time stay until they expire'

/**
 * `-` makes it open /dev/stdin, which fails for a socket (unix(7), ENXIO), and that is what
 * Node gives its children as a pipe. A shell makes a real one.
 */
const loadInput = ['sh', ['-c', 'cat | conntrack --load-file -']] as const

/** What getopt says. */
const noSuchOption = /(invalid|unrecognized|unknown|ambiguous) option/i

const nameOf = ({ family, address = '*', port }: UdpVip): string =>
  `${family} ${address} ${port}`

const costOf = (entries: number): number => filterMs + entries * entryMs

const toolFamily = (family: IpFamily): string => family.toLowerCase()

const removal = (family: IpFamily, filter: EntryFilter): readonly string[] =>
  `-D -p udp -f ${toolFamily(family)} ${filter}`.split(' ')

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
      if (noneThere.test(error.stderr)) return
      if (!hasGone.test(error.stderr) || runs === mostRuns) throw error
    }
  }
}

const noneThere = /\b0 flow entries have been deleted/
const hasGone = /such conntrack doesn't exist/
