import { isDeepStrictEqual } from 'node:util'
import type { FlowVip } from '../kernel/conntrack.ts'
import type { Families } from '../kernel/keeper/families.ts'
import {
  type FlowChanges,
  RuleKeeper,
  type RuleKeeperDeps,
} from '../kernel/keeper/rule-keeper.ts'
import type { Problem, ServicePort, Snapshot } from '../model/snapshot.ts'
import { cidrsOfFamily } from '../util/cidr.ts'
import type { Clock } from '../util/clock.ts'
import { ToolError } from '../kernel/run-tool.ts'
import { ipFamilies, type IpFamily } from '../util/ip.ts'
import { KeyedList } from '../util/keyed-list.ts'
import { listDiff } from '../util/list-diff.ts'
import type { Capture, Placement } from './capture.ts'
import type { RuleTables, TableSettings, RuleTable } from './rule-table.ts'
import { type VipRule, vipRules } from './vip-rule.ts'
import { Installed } from '../kernel/keeper/installed.ts'
import type { KernelSync, Proxier } from '../kernel/proxier.ts'

export interface RuleCaptureDeps extends Pick<
  RuleKeeperDeps<RuleLists, TableSettings>,
  'conntrack' | 'left' | 'resync' | 'observers'
> {
  readonly clock: Clock
  readonly tables: RuleTables
  readonly families: Families
  /** On which proxy ports are. */
  readonly proxyAddress: (family: IpFamily) => string
  /** Gives ServicePorts their proxy ports. */
  readonly listen: Pick<Capture, 'place'>
  /** Before ports are bound: makes the proxy address this host's own. Rejects when it can't be. */
  readonly prepare: (family: IpFamily) => Promise<void>
  /** The rules stand, and with them whatever of the kernel's they make it load. Never rejects. */
  readonly applied: () => Promise<void>
  /** Before the first port is bound: has clients wait that another capture's rules lead there. */
  readonly holdOthers: () => Promise<void>
  /**
   * Once new rules stand, and before they lead anybody: takes that one's rules out. What they remember of
   * clients can be forgotten then, and nothing else. Never rejects.
   */
  readonly removeOthers: (family: IpFamily) => Promise<void>
  /** The opposite of `prepare`; `keep` leaves in place what the rules need. */
  readonly release: (keep: boolean) => Promise<void>
  readonly nodePortCidrs: (family: IpFamily) => readonly string[] | undefined
  /** Of either family. */
  readonly podCidrs: () => readonly string[]
  /** As in kernel/conntrack.ts; gives why it could not be done. */
  readonly forgetWaiting: (family: IpFamily) => Promise<Error | undefined>
  /** Leave the rules when Usher ends: new clients wait for the next one. */
  readonly keepRules: boolean
  /** Something that can be done without did not work. */
  readonly failed: (what: string, reason: string) => void
}

/**
 * For how long a handshake that was under way at `hold` may take; the relay then accepts who has come.
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
  /** Those in which no client gets to a proxy port by what an earlier process has left. */
  readonly #mine = new Set<IpFamily>()
  /** Those that could not be prepared for the last placement. */
  #unprepared = new Map<IpFamily, Error>()

  constructor(deps: RuleCaptureDeps) {
    this.#deps = deps
    this.#proxiers = new Map(
      ipFamilies.map(family => [
        family,
        new RuleProxier(deps.tables.table(family), {
          removeOthers: () => deps.removeOthers(family),
          forgetWaiting: () => this.#forgetWaiting(family),
        }),
      ]),
    )
    this.#keeper = new RuleKeeper({
      ...deps,
      proxiers: this.#proxiers,
      flowChanges: () => new RuleFlowChanges(),
    })
  }

  async place(servicePorts: readonly ServicePort[]): Promise<readonly Placement[]> {
    const { families, listen } = this.#deps
    const wanted = new Set(servicePorts.map(({ family }) => family))
    const usable = ipFamilies.filter(family => families.problemOf(family) === '')
    this.#unprepared.clear()
    for (const family of usable) await this.#prepare(family)
    const [error] = [...this.#unprepared.values()]
    const works = usable.filter(family => !this.#unprepared.has(family))
    // None works: that is a failure, and not only a problem. It is tried again by the next sync.
    if (error !== undefined && !works.some(family => wanted.has(family))) throw error
    for (const [family, { message }] of this.#unprepared) families.lost(family, message)
    const { IPv4, IPv6 } = families.want(wanted)
    this.#unprepared.clear()
    if (wanted.size > 0 && IPv4 !== '' && IPv6 !== '')
      throw new ToolError(wanted.has('IPv4') ? IPv4 : IPv6, 'failed', '')
    return listen.place(servicePorts)
  }

  async steer(
    placements: readonly Placement[],
    snapshots: readonly Snapshot[],
  ): Promise<void> {
    await this.#keeper.sync(
      await Promise.all(
        Array.from(this.#mine, async family => {
          const wanted = await this.#wanted(family, placements)
          const settings = this.#settings(family, snapshots)
          return { family, wanted, settings, isEmpty: wanted.flat().length === 0 }
        }),
      ),
    )
    await this.#deps.applied()
  }

  problems(): readonly Problem[] {
    const object = `capture ${this.#deps.tables.name}`
    const failed = Array.from(this.#unprepared, ([field, { message }]) => ({
      object,
      field,
      message,
    }))
    return [...this.#deps.families.problems, ...failed, ...this.#keeper.problems(object)]
  }

  async hold(): Promise<void> {
    this.#deps.families.stop()
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
    const { families, keepRules, release } = this.#deps
    families.stop()
    this.#keeper.stop()
    try {
      if (!keepRules)
        await Promise.all(Array.from(this.#proxiers.values(), each => each.remove()))
    } finally {
      if (this.#isPrepared) await release(keepRules)
      this.#isPrepared = false
    }
  }

  async #prepare(family: IpFamily): Promise<void> {
    const { holdOthers, prepare } = this.#deps
    try {
      await prepare(family)
      if (!this.#isPrepared) await holdOthers()
      this.#isPrepared = true
      if (this.#mine.has(family)) return
      await this.#proxiers.get(family)?.takeOver()
      this.#mine.add(family)
    } catch (error) {
      this.#unprepared.set(family, error as Error)
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
    const { tables, proxyAddress, nodePortCidrs, podCidrs } = this.#deps
    const checks = tables.admitsHealthChecks
      ? snapshots.filter(snapshot => snapshot.family === family)
      : []
    const ports = checks.flatMap(({ healthChecks }) =>
      [...healthChecks.values()].map(({ port }) => port),
    )
    return {
      proxyAddress: proxyAddress(family),
      nodePortCidrs: nodePortCidrs(family),
      podCidrs: cidrsOfFamily(podCidrs(), family),
      healthCheckPorts: [...new Set(ports)].toSorted((a, b) => a - b),
    }
  }

  #sleep(ms: number): Promise<void> {
    return new Promise(resolve => void this.#deps.clock.setTimeout(resolve, ms))
  }
}

interface Written {
  readonly rules: RuleLists
  readonly settings: TableSettings
  readonly work: KernelSync['work']
}

/** What an Usher before this one has left in the family. */
interface Before {
  readonly removeOthers: () => Promise<void>
  readonly forgetWaiting: () => Promise<void>
}

/**
 * A family's rules that lead VIPs to proxy ports: changed where it is known what the kernel
 * has, replaced as a whole where it is not.
 */
class RuleProxier implements Proxier<RuleLists, TableSettings> {
  readonly #table: RuleTable
  readonly #before: Before
  readonly #written = new Installed<Written>()
  #isInstalled = false
  /** Rules and flows of an earlier process may lead clients to ports of then. */
  #isTakingOver = false

  constructor(table: RuleTable, before: Before) {
    this.#table = table
    this.#before = before
  }

  /** Whether rules of this process may be in the kernel. */
  get isInstalled(): boolean {
    return this.#isInstalled
  }

  /**
   * Before the first proxy port is listened on. A port is another Service's in this process
   * than in the one before: until its own rules are in the kernel, no new client gets to any,
   * neither by a rule of then nor by what the kernel remembers of a flow.
   */
  async takeOver(): Promise<void> {
    await this.#table.hold()
    this.#isTakingOver = true
    await this.#before.forgetWaiting()
  }

  async sync(rules: RuleLists, settings: TableSettings): Promise<KernelSync> {
    this.#isInstalled = true
    const { work } = await this.#written.write(async known => {
      const isAsBefore = isDeepStrictEqual(known?.settings, settings)
      const did =
        known !== undefined && isAsBefore
          ? await this.#change(known.rules, rules)
          : await this.#replace(rules, settings)
      return { rules, settings, work: did }
    })
    return { work }
  }

  forget(): void {
    this.#written.forget()
  }

  problems(): readonly Problem[] {
    return this.#table.problems?.() ?? []
  }

  watch(damaged: (what: string) => void): () => void {
    return this.#table.watch(damaged)
  }

  async hold(): Promise<void> {
    // What comes after it is a new start.
    this.forget()
    if (this.#isInstalled) await this.#table.hold()
  }

  async remove(): Promise<void> {
    this.forget()
    if (this.#isInstalled) await this.#table.remove()
    this.#isInstalled = false
  }

  close(): void {}

  async #change(from: RuleLists, to: RuleLists): Promise<KernelSync['work']> {
    const { gone, come } = ruleChanges(from, to)
    if (gone.length + come.length === 0) return 'nothing'
    await this.#table.change(gone, come)
    return 'partial'
  }

  async #replace(rules: RuleLists, settings: TableSettings): Promise<KernelSync['work']> {
    await this.#table.replace(rules.flat(), settings)
    if (this.#isTakingOver) {
      // Clients whom they hold are remembered with the port of then; whom the new ones lead is not to be forgotten.
      await this.#before.removeOthers()
      await this.#before.forgetWaiting()
      await this.#table.release()
      this.#isTakingOver = false
    }
    return 'full'
  }
}

/** The rules of a family, by ServicePort: what did not change is the same list. */
type RuleLists = readonly (readonly VipRule[])[]

/** Rules that are to be taken out and put in; one that did not change is in neither. */
interface RuleChanges {
  readonly gone: readonly VipRule[]
  readonly come: readonly VipRule[]
}

const ruleChanges = (from: RuleLists, to: RuleLists): RuleChanges => {
  const { before, after } = listDiff(from, to)
  const [old, now] = [byKey(before), byKey(after)]
  return {
    gone: [...old].flatMap(([key, rule]) => differing(rule, now.get(key))),
    come: [...now].flatMap(([key, rule]) => differing(rule, old.get(key))),
  }
}

const byKey = (lists: RuleLists): ReadonlyMap<string, VipRule> =>
  new Map(lists.flat().map(rule => [rule.key, rule]))

const differing = (rule: VipRule, other: VipRule | undefined): readonly VipRule[] =>
  other !== undefined && isDeepStrictEqual(rule, other) ? [] : [rule]

/** Of VIPs that rules lead to proxy ports. */
class RuleFlowChanges implements FlowChanges<RuleLists, TableSettings> {
  #applied: RuleLists = []

  take(
    rules: RuleLists,
    all: boolean,
    left: readonly FlowVip[] = [],
  ): readonly FlowVip[] {
    const { gone, come } = ruleChanges(this.#applied, rules)
    this.#applied = rules
    const had = new Set(gone.map(({ key }) => key))
    const vips = new Map(left.map(vip => [`${vip.address ?? '*'} UDP ${vip.port}`, vip]))
    for (const rule of gone) put(vips, { ...rule, outside: 'reject', fromNode: 'reject' })
    for (const rule of all ? rules.flat() : come)
      // Of TCP only what has come may have led nowhere.
      if (rule.protocol === 'UDP' || all || !had.has(rule.key)) put(vips, rule)
    return [...vips.values()]
  }
}

const put = (vips: Map<string, FlowVip>, rule: VipRule): void => {
  const { key, family, protocol, address, port, to, outside, fromNode } = rule
  // Which of the two is not to be forwarded is for the relay to say, flow by flow.
  const isLed = outside === 'forward' || fromNode === 'forward'
  if (protocol === 'SCTP' || (protocol === 'TCP' && !isLed)) return
  // What an earlier kernel mode led there goes, too.
  if (!isLed && vips.get(key)?.relayed === undefined && vips.has(key)) return
  const relayed = { to: isLed ? [to] : undefined, relayed: true } as const
  vips.set(key, { family, protocol, address, port, ...relayed })
}
