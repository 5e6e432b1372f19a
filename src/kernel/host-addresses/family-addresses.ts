import type { Clock } from '../../util/clock.ts'
import { forEachYielding } from '../../util/yielding.ts'
import type { RunTool } from '../run-tool.ts'
import type { AddressKind } from './address-kind.ts'
import { listOf, runIpBatch } from './ip-tool.ts'
import { gatewaysOf, whyGateway, whySwallowed } from './swallowed-network.ts'

/** Until what could not be set, or was another program's, is tried again. */
const retryMs = 30_000

/** Those of one kind, and what is known of them. Calls don't overlap. */
export class FamilyAddresses {
  readonly #kind: AddressKind
  readonly #run: RunTool
  readonly #clock: Pick<Clock, 'now'>
  /** Undefined while that is not known. */
  #ours: Set<string> | undefined
  /** The host has these by itself. */
  readonly #foreign = new Set<string>()
  readonly #errors = new Map<string, string>()
  #retryAt = Infinity
  /** Ours until another program took them away; they could not be set again since. */
  readonly #taken = new Set<string>()

  constructor(kind: AddressKind, run: RunTool, clock: Pick<Clock, 'now'>) {
    this.#kind = kind
    this.#run = run
    this.#clock = clock
  }

  /** See HostAddresses. */
  async sync(wanted: ReadonlySet<string>): Promise<ReadonlyMap<string, string>> {
    if (this.#clock.now() >= this.#retryAt) this.#forgetFailures()
    try {
      const ours = (this.#ours ??= await this.#list())
      const come = [...wanted].filter(cidr => this.#isMissing(ours, cidr))
      if (come.length > 0) await this.#add(ours, come)
      const gone = [...ours].filter(cidr => !wanted.has(cidr) && !this.#errors.has(cidr))
      if (gone.length > 0) await this.#remove(ours, gone)
    } catch (error) {
      // What was done of it is not known.
      this.#ours = undefined
      this.#retryAt = Math.min(this.#retryAt, this.#clock.now() + retryMs)
      return new Map(Array.from(wanted, cidr => [cidr, (error as Error).message]))
    }
    for (const cidr of this.#foreign) if (!wanted.has(cidr)) this.#foreign.delete(cidr)
    for (const cidr of this.#errors.keys()) {
      if (!wanted.has(cidr) && !this.#ours?.has(cidr)) this.#errors.delete(cidr)
    }
    for (const cidr of this.#taken) if (!this.#errors.has(cidr)) this.#taken.delete(cidr)
    return new Map(this.#errors)
  }

  /**
   * Which of ours, or of the host's own, were taken away since; they count as missing from now on.
   * Those that could not be put back are given again when it is time to try.
   */
  async missing(): Promise<readonly string[]> {
    const again = this.#clock.now() >= this.#retryAt ? [...this.#taken] : []
    const held = this.#foreign.size === 0 ? undefined : await this.#held()
    for (const cidr of held === undefined ? [] : this.#foreign)
      if (held?.get(cidr) !== 'local' && this.#foreign.delete(cidr)) again.push(cidr)
    if (this.#ours === undefined || this.#ours.size === 0) return again
    const now = await this.#list()
    const missing = [...this.#ours].filter(cidr => !now.has(cidr))
    for (const cidr of missing) {
      this.#ours.delete(cidr)
      this.#taken.add(cidr)
    }
    return [...again, ...missing]
  }

  /** All that bear the mark. */
  async removeAll(): Promise<void> {
    this.#forgetFailures()
    const ours = await this.#list()
    this.#ours = undefined
    await this.#remove(ours, [...ours])
    const [first] = this.#errors
    if (first !== undefined) throw new Error(`${first[0]} stays: ${first[1]}`)
  }

  #forgetFailures(): void {
    this.#errors.clear()
    this.#foreign.clear()
    this.#retryAt = Infinity
  }

  #isMissing(ours: ReadonlySet<string>, cidr: string): boolean {
    return !ours.has(cidr) && !this.#foreign.has(cidr) && !this.#errors.has(cidr)
  }

  #fail(cidr: string, why: string): void {
    this.#errors.set(cidr, why)
    if (this.#retryAt === Infinity) this.#retryAt = this.#clock.now() + retryMs
  }

  async #list(): Promise<Set<string>> {
    const text = await listOf(this.#run, this.#kind.list)
    const found: string[] = []
    await forEachYielding(text.split('\n'), line => {
      const cidr = this.#kind.marked(line)
      if (cidr !== undefined) found.push(cidr)
    })
    return new Set(found)
  }

  async #add(ours: Set<string>, wanted: readonly string[]): Promise<void> {
    const cidrs = await this.#possible(wanted)
    if (cidrs.length === 0) return
    const errors = await runIpBatch(this.#run, cidrs.map(this.#kind.add))
    const exist: string[] = []
    cidrs.forEach((cidr, index) => {
      const why = errors.get(index)
      if (why === undefined) ours.add(cidr)
      else if (/file exists|already assigned/i.test(why)) exist.push(cidr)
      else this.#fail(cidr, why)
    })
    if (exist.length > 0) await this.#judgeExisting(exist)
  }

  /** Without those that can't be set, and those that the host has already. */
  async #possible(cidrs: readonly string[]): Promise<readonly string[]> {
    const possible: string[] = []
    const gateways = await gatewaysOf(this.#run, this.#kind.family)
    for (const cidr of cidrs) {
      const why =
        whyGateway(cidr, gateways) || (isSingle(cidr) ? '' : await this.#whyNoRange(cidr))
      if (why === '') possible.push(cidr)
      else this.#fail(cidr, why)
    }
    // A second route for an address is refused; a second interface with it is not.
    if (this.#kind.ranges || possible.length === 0) return possible
    const held = await this.#held()
    for (const cidr of possible) if (held.has(cidr)) this.#foreign.add(cidr)
    return possible.filter(cidr => !held.has(cidr))
  }

  async #whyNoRange(cidr: string): Promise<string> {
    return this.#kind.ranges
      ? whySwallowed(this.#run, cidr)
      : 'IPv6 addresses can only be added one by one, unless net.ipv6.ip_nonlocal_bind is 1'
  }

  /** A route that exists, and is not marked as ours, is another program's. */
  async #judgeExisting(cidrs: readonly string[]): Promise<void> {
    const held = await this.#held()
    for (const cidr of cidrs) {
      const type = held.get(cidr) ?? 'local'
      if (type === 'local') this.#foreign.add(cidr)
      else this.#fail(cidr, `this host has a ${type} route for it`)
    }
  }

  async #held(): Promise<ReadonlyMap<string, string>> {
    const text = await listOf(this.#run, this.#kind.listHeld)
    const held = new Map<string, string>()
    await forEachYielding(text.split('\n'), line => {
      const one = this.#kind.held(line)
      if (one !== undefined) held.set(one.cidr, one.type)
    })
    return held
  }

  async #remove(ours: Set<string>, cidrs: readonly string[]): Promise<void> {
    if (cidrs.length === 0) return
    const errors = await runIpBatch(this.#run, cidrs.map(this.#kind.remove))
    cidrs.forEach((cidr, index) => {
      const why = errors.get(index)
      if (why === undefined || isGone.test(why)) ours.delete(cidr)
      else this.#fail(cidr, why)
    })
  }
}

/** Another program was faster. */
const isGone = /no such process|address not found|cannot assign requested address/i

const isSingle = (cidr: string): boolean =>
  cidr.endsWith('/128') || (cidr.endsWith('/32') && !cidr.includes(':'))
