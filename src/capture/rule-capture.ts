import type { UdpVip } from '../kernel/conntrack-plan.ts'
import type { Problem, ServicePort, Snapshot } from '../model/snapshot.ts'
import { parseCidr } from '../util/cidr.ts'
import type { Clock } from '../util/clock.ts'
import type { IpFamily } from '../util/ip.ts'
import type { Capture, Placement } from './capture.ts'
import { FamilyRules, type RuleChanges, type RuleWork } from './family-rules.ts'
import { RuleRepairs } from './rule-repairs.ts'
import type { RuleTables, TableSettings } from './rule-table.ts'
import type { VipRule } from './vip-rule.ts'
import { WantedRules } from './wanted-rules.ts'

/** Hears what was done to the kernel's rules. */
export interface RuleObserver {
  synced(family: IpFamily, work: RuleWork, seconds: number): void
  /** Somebody else had changed them; '' for `error` when they are as they should be again. */
  repaired(family: IpFamily, what: string, error: string): void
  /** Something that can be done without did not work. */
  failed(what: string, error: Error): void
}

export interface RuleCaptureDeps {
  readonly clock: Clock
  readonly tables: RuleTables
  /** The families that can be had, each with the address of its proxy ports. */
  readonly proxyAddresses: ReadonlyMap<IpFamily, string>
  /** Gives ServicePorts their proxy ports. */
  readonly listen: Pick<Capture, 'place'>
  /**
   * Before the first port is bound: makes the proxy addresses this host's own, and has those
   * wait whom another capture's rules lead there.
   */
  readonly prepare: () => Promise<void>
  /** The opposite of it; `keep` leaves in place what the rules need. */
  readonly release: (keep: boolean) => Promise<void>
  readonly nodePortCidrs: (family: IpFamily) => readonly string[] | undefined
  /** Of either family. */
  readonly podCidrs: () => readonly string[]
  /** As in forget-proxy-flows.ts; gives why it could not be done. */
  readonly forgetWaiting: (family: IpFamily) => Promise<Error | undefined>
  /** Ends what the kernel remembers of UDP flows to these, so that rules count for them. */
  readonly forgetUdp: (vips: readonly UdpVip[]) => Promise<void>
  /** Leave the rules when Usher ends: new clients wait for the next one. */
  readonly keepRules: boolean
  readonly observer: RuleObserver
}

/**
 * For how long connections whose handshake was under way at `hold` may take to be accepted.
 */
const settleMs = 200

/**
 * Leads traffic for VIPs to proxy ports by rules of the kernel's. The relay listens first,
 * then come the rules; and rules whose process has gone keep clients waiting, so that a
 * restart refuses nobody.
 */
export class RuleCapture implements Capture {
  readonly #deps: RuleCaptureDeps
  readonly #wanted = new WantedRules()
  readonly #families: ReadonlyMap<IpFamily, FamilyRules>
  readonly #errors = new Map<IpFamily, string>()
  readonly #repairs: RuleRepairs
  /** UDP VIPs that are gone, until the kernel's rules for them are. */
  readonly #gone = new Map<IpFamily, readonly VipRule[]>()
  #isPrepared = false
  /** Nobody gets to a proxy port by what an earlier process has left. */
  #isMine = false

  constructor(deps: RuleCaptureDeps) {
    this.#deps = deps
    this.#families = new Map(
      Array.from(deps.proxyAddresses.keys(), family => [
        family,
        new FamilyRules(deps.tables.table(family), () => this.#forgetWaiting(family)),
      ]),
    )
    this.#repairs = new RuleRepairs({
      clock: deps.clock,
      families: this.#families,
      repaired: (...args) => this.#repaired(...args),
    })
  }

  async place(servicePorts: readonly ServicePort[]): Promise<readonly Placement[]> {
    if (!this.#isMine) await this.#prepare()
    return this.#deps.listen.place(servicePorts)
  }

  async steer(
    placements: readonly Placement[],
    snapshots: readonly Snapshot[],
  ): Promise<void> {
    await this.#wanted.take(placements)
    const changes = this.#wanted.changes()
    const results = await Promise.allSettled(
      Array.from(this.#families, ([family, rules]) =>
        this.#sync(family, rules, changes[family], this.#settings(family, snapshots)),
      ),
    )
    // Also when it failed: what failed is written as a whole the next time.
    this.#wanted.applied()
    this.#repairs.start()
    const failure = results.find(({ status }) => status === 'rejected')
    if (failure?.status === 'rejected') throw failure.reason
  }

  problems(): readonly Problem[] {
    const { name } = this.#deps.tables
    return Array.from(this.#errors, ([family, message]) => ({
      object: `capture ${name}`,
      field: family,
      message,
    }))
  }

  async hold(): Promise<void> {
    this.#repairs.stop()
    const installed = [...this.#families.values()].filter(rules => rules.isInstalled)
    if (installed.length === 0) return
    const held = await Promise.allSettled(installed.map(rules => rules.hold()))
    // Rules that are broken by then must not cost the connections that are to be drained.
    for (const one of held)
      if (one.status === 'rejected')
        this.#deps.observer.failed('keeping new clients waiting', one.reason as Error)
    await this.#sleep(settleMs)
  }

  async close(): Promise<void> {
    const { keepRules, release } = this.#deps
    this.#repairs.stop()
    try {
      if (!keepRules)
        await Promise.all(Array.from(this.#families.values(), rules => rules.remove()))
    } finally {
      if (this.#isPrepared) await release(keepRules)
      this.#isPrepared = false
    }
  }

  async #prepare(): Promise<void> {
    try {
      if (!this.#isPrepared) await this.#deps.prepare()
      this.#isPrepared = true
      await Promise.all(Array.from(this.#families.values(), rules => rules.takeOver()))
      this.#isMine = true
      this.#errors.clear()
    } catch (error) {
      for (const family of this.#families.keys())
        this.#errors.set(family, (error as Error).message)
      throw error
    }
  }

  async #forgetWaiting(family: IpFamily): Promise<void> {
    const { forgetWaiting, observer } = this.#deps
    const failure = await forgetWaiting(family)
    if (failure !== undefined)
      observer.failed('ending flows to the proxy ports of an earlier Usher', failure)
  }

  async #sync(
    family: IpFamily,
    rules: FamilyRules,
    changes: RuleChanges,
    settings: TableSettings,
  ): Promise<void> {
    const { clock, observer } = this.#deps
    const started = clock.now()
    this.#gone.set(family, [...this.#goneOf(family), ...changes.gone.filter(isUdp)])
    try {
      const all = (): readonly VipRule[] => this.#wanted.all(family)
      const work = await rules.sync(settings, changes, all)
      this.#errors.delete(family)
      if (work === 'nothing') return
      observer.synced(family, work, (clock.now() - started) / 1000)
      // Nobody waits for it: with a hundred thousand flows it takes seconds.
      void this.#forgetUdp(family, work === 'replaced' ? all() : changes.come)
    } catch (error) {
      this.#errors.set(family, (error as Error).message)
      throw error
    }
  }

  /** A flow that the kernel knows goes where it went, whatever the rules say now. */
  async #forgetUdp(family: IpFamily, now: readonly VipRule[]): Promise<void> {
    const vips = new Map<string, UdpVip>()
    for (const rule of this.#goneOf(family))
      vips.set(rule.key, { ...rule, to: undefined })
    this.#gone.delete(family)
    for (const rule of now.filter(isUdp)) vips.set(rule.key, ledTo(rule))
    const udp = [...vips.values()]
    if (udp.length === 0) return
    try {
      await this.#deps.forgetUdp(udp)
    } catch (error) {
      this.#deps.observer.failed('ending stale UDP flows', error as Error)
    }
  }

  #goneOf(family: IpFamily): readonly VipRule[] {
    return this.#gone.get(family) ?? []
  }

  #settings(family: IpFamily, snapshots: readonly Snapshot[]): TableSettings {
    const { tables, proxyAddresses, nodePortCidrs, podCidrs } = this.#deps
    const checks = tables.admitsHealthChecks
      ? snapshots.filter(snapshot => snapshot.family === family)
      : []
    const ports = checks.flatMap(({ healthChecks }) =>
      [...healthChecks.values()].map(({ port }) => port),
    )
    return {
      proxyAddress: proxyAddresses.get(family) ?? '',
      nodePortCidrs: nodePortCidrs(family),
      podCidrs: canonical(podCidrs(), family),
      healthCheckPorts: [...new Set(ports)].toSorted((a, b) => a - b),
    }
  }

  #repaired(family: IpFamily, what: string, error: string): void {
    this.#deps.observer.repaired(family, what, error)
    if (error !== '') {
      this.#errors.set(family, error)
      return
    }
    this.#errors.delete(family)
    // What began meanwhile goes nowhere, or elsewhere.
    void this.#forgetUdp(family, this.#wanted.all(family))
  }

  #sleep(ms: number): Promise<void> {
    return new Promise(resolve => void this.#deps.clock.setTimeout(resolve, ms))
  }
}

const isUdp = ({ protocol }: VipRule): boolean => protocol === 'UDP'

const ledTo = ({ family, address, port, to, outside, fromNode }: VipRule): UdpVip => ({
  family,
  address,
  port,
  // Who of the two is not to be forwarded is for the relay to say, flow by flow.
  to: outside === 'forward' || fromNode === 'forward' ? [to] : undefined,
})

const canonical = (cidrs: readonly string[], family: IpFamily): readonly string[] =>
  cidrs.flatMap(text => {
    const cidr = parseCidr(text)
    return cidr?.family === family ? [cidr.text] : []
  })
