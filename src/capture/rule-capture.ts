import { isDeepStrictEqual } from 'node:util'
import { RuleKeeper, type RuleKeeperDeps } from '../kernel/keeper/rule-keeper.ts'
import type { Problem, ServicePort, Snapshot } from '../model/snapshot.ts'
import { cidrsOfFamily } from '../util/cidr.ts'
import type { Clock } from '../util/clock.ts'
import type { IpFamily } from '../util/ip.ts'
import { KeyedList } from '../util/keyed-list.ts'
import type { Capture, Placement } from './capture.ts'
import { type RuleLists, RuleFlowChanges } from './rule-changes.ts'
import { RuleProxier } from './rule-proxier.ts'
import type { RuleTables, TableSettings } from './rule-table.ts'
import { type VipRule, vipRules } from './vip-rule.ts'

export interface RuleCaptureDeps extends Pick<
  RuleKeeperDeps<RuleLists, TableSettings>,
  'conntrack' | 'left' | 'resync' | 'observers'
> {
  readonly clock: Clock
  readonly tables: RuleTables
  /** The families that work, each with the address of its proxy ports. */
  readonly proxyAddresses: ReadonlyMap<IpFamily, string>
  /** Gives ServicePorts their proxy ports. */
  readonly listen: Pick<Capture, 'place'>
  /**
   * Before the first port is bound: makes the proxy addresses this host's own, and has those
   * clients wait that another capture's rules lead there.
   */
  readonly prepare: () => Promise<void>
  /** The opposite of it; `keep` leaves in place what the rules need. */
  readonly release: (keep: boolean) => Promise<void>
  readonly nodePortCidrs: (family: IpFamily) => readonly string[] | undefined
  /** Of either family. */
  readonly podCidrs: () => readonly string[]
  /** As in forget-proxy-flows.ts; gives why it could not be done. */
  readonly forgetWaiting: (family: IpFamily) => Promise<Error | undefined>
  /** Leave the rules when Usher ends: new clients wait for the next one. */
  readonly keepRules: boolean
  /** Something that can be done without did not work. */
  readonly failed: (what: string, why: string) => void
}

/**
 * For how long connections whose handshake was under way at `hold` may take to be accepted.
 */
const settleMs = 200

/**
 * Leads traffic for VIPs to proxy ports by rules of the kernel's. The relay listens first,
 * then come the rules; and rules whose process has gone keep clients waiting, so that a
 * restart refuses no client.
 */
export class RuleCapture implements Capture {
  readonly #deps: RuleCaptureDeps
  readonly #proxiers: ReadonlyMap<IpFamily, RuleProxier>
  readonly #keeper: RuleKeeper<RuleLists, TableSettings>
  /** By family: what is wanted of each placement. */
  readonly #rules = new Map<IpFamily, KeyedList<Placement, readonly VipRule[]>>()
  #isPrepared = false
  /** No client gets to a proxy port by what an earlier process has left. */
  #isMine = false
  /** Why that is not so; '' when it is. */
  #whyNotMine = ''

  constructor(deps: RuleCaptureDeps) {
    this.#deps = deps
    this.#proxiers = new Map(
      Array.from(deps.proxyAddresses.keys(), family => [
        family,
        new RuleProxier(deps.tables.table(family), () => this.#forgetWaiting(family)),
      ]),
    )
    this.#keeper = new RuleKeeper({
      ...deps,
      proxiers: this.#proxiers,
      flowChanges: () => new RuleFlowChanges(),
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
    await this.#keeper.sync(
      await Promise.all(
        Array.from(this.#proxiers.keys(), async family => {
          const wanted = await this.#wanted(family, placements)
          const settings = this.#settings(family, snapshots)
          return { family, wanted, settings, isEmpty: wanted.flat().length === 0 }
        }),
      ),
    )
  }

  problems(): readonly Problem[] {
    const object = `capture ${this.#deps.tables.name}`
    if (this.#whyNotMine === '') return this.#keeper.problems(object)
    const message = this.#whyNotMine
    return Array.from(this.#proxiers.keys(), field => ({ object, field, message }))
  }

  async hold(): Promise<void> {
    this.#keeper.stop()
    const installed = [...this.#proxiers.values()].filter(each => each.isInstalled)
    if (installed.length === 0) return
    const held = await Promise.allSettled(installed.map(each => each.hold()))
    // Rules that are broken by then must not cost the connections that are to be drained.
    for (const one of held)
      if (one.status === 'rejected')
        this.#failed('keeping new clients waiting', one.reason as Error)
    await this.#sleep(settleMs)
  }

  async close(): Promise<void> {
    const { keepRules, release } = this.#deps
    this.#keeper.stop()
    try {
      if (!keepRules)
        await Promise.all(Array.from(this.#proxiers.values(), each => each.remove()))
    } finally {
      if (this.#isPrepared) await release(keepRules)
      this.#isPrepared = false
    }
  }

  async #prepare(): Promise<void> {
    try {
      if (!this.#isPrepared) await this.#deps.prepare()
      this.#isPrepared = true
      await Promise.all(Array.from(this.#proxiers.values(), each => each.takeOver()))
      this.#isMine = true
      this.#whyNotMine = ''
    } catch (error) {
      this.#whyNotMine = (error as Error).message
      throw error
    }
  }

  async #forgetWaiting(family: IpFamily): Promise<void> {
    const failure = await this.#deps.forgetWaiting(family)
    if (failure !== undefined)
      this.#failed('ending flows to the proxy ports of an earlier Usher', failure)
  }

  #failed(what: string, { message }: Error): void {
    this.#deps.failed(what, message)
  }

  /** An endpoint that comes or goes makes another placement, but mostly the same rules. */
  #wanted(family: IpFamily, placements: readonly Placement[]): Promise<RuleLists> {
    const known =
      this.#rules.get(family) ??
      new KeyedList<Placement, readonly VipRule[]>(({ listenerId }) => listenerId)
    this.#rules.set(family, known)
    const own = placements.filter(({ servicePort }) => servicePort.family === family)
    return known.update(own, (placement, before) => {
      const rules = vipRules(placement)
      return before && isDeepStrictEqual(before, rules) ? before : rules
    })
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
      podCidrs: cidrsOfFamily(podCidrs(), family),
      healthCheckPorts: [...new Set(ports)].toSorted((a, b) => a - b),
    }
  }

  #sleep(ms: number): Promise<void> {
    return new Promise(resolve => void this.#deps.clock.setTimeout(resolve, ms))
  }
}
