import type { Problem, ServicePort, Snapshot, Vip } from '../../model/snapshot.ts'
import type { Clock } from '../../util/clock.ts'
import type { IpFamily } from '../../util/ip.ts'
import { Canary } from '../keeper/canary.ts'
import { Installed } from '../keeper/installed.ts'
import {
  type KernelSettings,
  type KernelSync,
  type InspectCommand,
  type Proxier,
  type ProxierKind,
  type ProxierObserver,
  boundClients,
} from '../proxier.ts'
import { type RunTool, ToolError } from '../run-tool.ts'
import type { SpawnMonitor } from '../nft/monitor.ts'
import { type Backend, type BackendMode, notifiedByNft } from '../xtables/backend.ts'
import { Unreadable, damageIn } from '../xtables/damage.ts'
import { takeOutAll } from '../xtables/restore-text.ts'
import { tableNow } from '../xtables/table-now.ts'
import { type TableName, tableNames } from '../xtables/wanted.ts'
import {
  type BackendChoice,
  type ChosenBackend,
  provenBackend,
} from '../xtables/choose-backend.ts'
import { countRules } from './edits.ts'
import { iptablesOwner, isModeChain } from './names.ts'
import { explained } from '../xtables/try-lines.ts'
import { changesRestore, fullRestore, tablesThere } from './restore-text.ts'
import { RulesetState, countWritten } from './ruleset-state.ts'
import { mayBeThere } from './jumps.ts'
import {
  findFeatures,
  type Context,
  portalKindNames,
  portalKinds,
  serviceRules,
} from './full-rules.ts'
import { kubeletFirewall } from '../xtables/kube-chains.ts'
import type { PacketCounters } from './packet-counters.ts'
import { tryBackend } from './probe.ts'
import { safe } from './service.ts'

export interface IptablesProxierDeps {
  readonly run: RunTool
  readonly clock: Clock
  readonly spawnMonitor?: SpawnMonitor
  readonly observer: ProxierObserver
  readonly family: IpFamily
  readonly counters?: PacketCounters | undefined
  /** Which back end to write by, as of now. */
  readonly choose: () => Promise<ChosenBackend>
}

/** What the kernel has. */
interface InstalledRules {
  readonly backend: Backend
  readonly ruleset: RulesetState
  /** Whether there can be rules for SCTP. */
  readonly hasSctp: boolean
  /** When all of it was written, by the clock. */
  readonly since: number
  /** What the last sync did to it. */
  readonly did: KernelSync
}

/**
 * Milliseconds after which all is written anew, as kube-proxy does: what a change by
 * another program left that the canary does not see. Not in large clusters (1.37), where it
 * takes seconds.
 */
const staleMs = 3_600_000

/** iptables-nft takes 10 s for the chains of 10 000 Services. */
const timeoutMs = 300_000

/**
 * Chains that are written in one transaction. iptables-nft-restore 1.8 looks for the chain
 * of each rule in a list of all that its input has: 10 000 Services, 80 000 rules, take it
 * 1.7 s in ten transactions and 6 s in one. The legacy one writes the whole table each time.
 */
const together: Readonly<Record<BackendMode, number>> = { nft: 3000, legacy: Infinity }

/** Services of a family by iptables; see `iptablesKind`. */
class IptablesProxier implements Proxier {
  readonly #deps: IptablesProxierDeps
  readonly #installed = new Installed<InstalledRules>()
  readonly #unreadable = new Unreadable()
  #isClosed = false
  readonly #failing = new Set<string>()
  #unserved: readonly ServicePort[] = []

  constructor(deps: IptablesProxierDeps) {
    this.#deps = deps
  }

  async sync(snapshot: Snapshot, settings: KernelSettings): Promise<KernelSync> {
    const { did } = await this.#installed.write((known, last) =>
      known !== undefined && this.#isGood(known, settings)
        ? this.#partial(known, snapshot, settings)
        : this.#full(snapshot, settings, last),
    )
    return did
  }

  forget(): void {
    this.#installed.forget()
  }

  problems(): readonly Problem[] {
    const unserved = this.#unserved.map(({ namespace, serviceName, vips }) => ({
      object: `Service ${namespace}/${serviceName}`,
      field: 'spec.ports',
      message: `SCTP port ${vips[0]?.port ?? ''} (${this.#deps.family}) is not served: iptables can't match SCTP here; load the kernel module xt_sctp`,
    }))
    return [...unserved, ...this.#unreadable.problems()]
  }

  watch(damaged: (what: string) => void): () => void {
    const { clock, spawnMonitor } = this.#deps
    const canary = new Canary({
      clock,
      installed: this.#installed,
      ...notifiedByNft(clock, spawnMonitor),
      size: ({ ruleset }) => ruleset.total().filter + ruleset.total().nat,
      findDamage: ({ backend, ruleset }, whole) =>
        damageIn(
          backend,
          iptablesOwner,
          ruleset.expected(whole),
          this.#unreadable,
          whole,
        ),
      damaged,
    })
    return () => canary.stop()
  }

  inspectCommands(servicePort: ServicePort, vip: Vip): readonly InspectCommand[] {
    return this.#installed.value === undefined ? [] : iptablesCommands(servicePort, vip)
  }

  close(): void {
    this.#isClosed = true
  }

  #isGood({ ruleset, since }: InstalledRules, settings: KernelSettings): boolean {
    const isOld = this.#deps.clock.now() - since > staleMs && !ruleset.isLarge
    return !isOld && ruleset.takes(settings)
  }

  async #partial(
    installed: InstalledRules,
    snapshot: Snapshot,
    settings: KernelSettings,
  ): Promise<InstalledRules> {
    const { backend, ruleset, hasSctp } = installed
    const changes = await ruleset.change(this.#served(snapshot, hasSctp), settings)
    const text = await changesRestore(changes, together[backend.mode])
    if (text !== '') await this.#restore(backend, text, 'partial')
    const work = text === '' ? 'nothing' : 'partial'
    return { ...installed, did: syncOf(work, ruleset, countWritten(changes)) }
  }

  async #full(
    snapshot: Snapshot,
    settings: KernelSettings,
    last: InstalledRules | undefined,
  ): Promise<InstalledRules> {
    const { run, family, choose, clock, counters } = this.#deps
    const since = clock.now()
    // Each time anew: the plain `iptables` may have been turned to the other back end by
    // update-alternatives, and what it wrote before would stay in force.
    const { chosen: backend, others } = await choose()
    const features = await findFeatures(run, backend, family, counters)
    const isKnown = last?.backend.mode === backend.mode && last.ruleset.isLarge
    const [ruleset, saved] = await Promise.all([
      RulesetState.of(this.#served(snapshot, features.sctp), settings, features),
      tablesThere(backend, isKnown ? last.ruleset.serviceChains() : undefined),
    ])
    for (const table of tableNames) this.#unreadable.note(backend, saved[table])
    const rules = ruleset.everything()
    const text = await fullRestore(rules, saved, together[backend.mode])
    await this.#restore(backend, text, 'full')
    for (const other of others) await this.#removeBy(other)
    const did = syncOf('full', ruleset, countRules(rules))
    return { backend, ruleset, since, hasSctp: features.sctp, did }
  }

  /** All that there can be rules for. */
  #served(snapshot: Snapshot, hasSctp: boolean): Snapshot {
    const all = hasSctp ? [] : [...snapshot.servicePorts]
    const unserved = all.filter(([, one]) => one.protocol === 'SCTP')
    this.#unserved = unserved.map(([, one]) => one)
    if (unserved.length === 0) return snapshot
    const served = all.filter(([, one]) => one.protocol !== 'SCTP')
    return { ...snapshot, servicePorts: new Map(served) }
  }

  async #restore(
    backend: Backend,
    text: string,
    work: 'partial' | 'full',
  ): Promise<void> {
    this.#refuseClosed()
    try {
      await backend.restore(text, { counters: true, timeoutMs })
    } catch (error) {
      this.#deps.observer.restoreFailed(this.#deps.family, work)
      throw explained(error, text)
    }
  }

  /** What a process before this one has left there would be in force beside these rules. */
  async #removeBy(other: Backend): Promise<void> {
    this.#refuseClosed()
    const { observer } = this.#deps
    const what = `rules of ${other.detail}`
    try {
      await removeBy(other)
      if (this.#failing.delete(what)) observer.failed(what, '')
    } catch (error) {
      if (!(error instanceof ToolError)) throw error
      this.#failing.add(what)
      observer.failed(what, error.message)
    }
  }

  /** What was under way while it closed: another mode may have its rules there by now. */
  #refuseClosed(): void {
    if (this.#isClosed) throw new Error('iptables mode has ended')
  }
}

const removeBy = async (backend: Backend): Promise<void> => {
  for (const table of ['nat', 'filter', 'mangle'] as const) {
    const jumps = table === 'mangle' ? [] : mayBeThere[table]
    const saved = await tableNow(backend, table, iptablesOwner, jumps)
    await takeOutAll(backend, saved, iptablesOwner)
  }
}

const syncOf = (
  work: KernelSync['work'],
  ruleset: RulesetState,
  wrote: Readonly<Record<TableName, number>>,
): KernelSync => {
  const total = ruleset.total()
  return {
    work,
    rules: {
      filter: { total: total.filter, written: wrote.filter },
      nat: { total: total.nat, written: wrote.nat },
    },
  }
}

export interface IptablesKindDeps {
  readonly run: RunTool
  readonly clock: Clock
  /** By default nothing is notified of changes: each check is made. */
  readonly spawnMonitor?: SpawnMonitor
  readonly observer: ProxierObserver
  /** By default `auto`: as the system has it, or as others of Kubernetes do. */
  readonly backend?: BackendChoice
  /** By default none: what rules count is not told. */
  readonly counters?: PacketCounters
}

/**
 * Services by iptables and ip6tables (1.6.2 or newer: `iptables-restore -w`), in the
 * layout of kube-proxy 1.25 to 1.36, by either back end.
 *
 * What an earlier process left, this or kube-proxy, holds until the first sync replaces it
 * in one transaction of each table. Node ports on 127.0.0.1 need
 * net.ipv4.conf.all.route_localnet = 1, which is not set here.
 */
export const iptablesKind = (deps: IptablesKindDeps): ProxierKind => {
  const { run, backend = 'auto' } = deps
  const backends = provenBackend(run, backend, (one, family) =>
    tryBackend(run, one, family),
  )
  return {
    name: 'iptables',
    probe: backends.probe,
    proxier: family =>
      new IptablesProxier({ ...deps, family, choose: () => backends.choose(family) }),
    owns: { chain: isOwned, nftablesTable: () => false, ipvs: false },
  }
}

/** KUBE-FIREWALL is the kubelet's where there is one, but never a leftover while this runs. */
const isOwned = (table: string, chain: string): boolean =>
  isModeChain(table, chain) || (table === 'filter' && chain === kubeletFirewall)

/** Chains of Services that a line may lead to, but for those of endpoints. */
const chainPattern = /-[jg] (KUBE-(?:SVC|SVL|EXT|FW)-[A-Z2-7]+)/

/** The list of an endpoint's clients. */
const recentPattern = /-m recent --name (\S+) --rcheck/

/** By the rules that are written: names of chains don't depend on settings. */
const iptablesCommands = (
  servicePort: ServicePort,
  vip: Vip,
): readonly InspectCommand[] => {
  const { family } = servicePort
  const rules = serviceRules({ ...servicePort, vips: [vip] }, { ...plain, family })
  const save = family === 'IPv4' ? 'iptables-save' : 'ip6tables-save'
  const lines = portalKindNames.flatMap(kind =>
    rules[kind].map(line => ({ ...portalKinds[kind], line })),
  )
  const entries = lines.map(({ table, chain, line }) => ({
    what: `${table} ${chain}: ${/-j (\S+)$/.exec(line)?.[1] ?? ''}`,
    command: `${save} -t ${table} | grep -F -- '-A ${chain} ' | grep -F '${safe(servicePort.name)}'`,
  }))
  const led = new Set(lines.flatMap(({ line }) => chainPattern.exec(line)?.[1] ?? []))
  const lists = new Set<string>()
  // A set is gone through with what is added meanwhile.
  for (const name of led)
    for (const line of rules.chains.find(one => one.name === name)?.lines ?? []) {
      const [next, list] = [chainPattern, recentPattern].map(one => one.exec(line)?.[1])
      if (next !== undefined) led.add(next)
      if (list !== undefined) lists.add(list)
    }
  const chains = [...led].map(chain => ({
    what: `nat ${chain}`,
    command: `${save} -t nat | grep ${chain}`,
  }))
  const bound = [...lists].map(list => ({
    what: `${boundClients}: list ${list}`,
    command: `cat /proc/net/xt_recent/${list}`,
  }))
  return [...entries, ...chains, ...bound]
}

const plain: Omit<Context, 'family'> = {
  masquerade: undefined,
  ifLocal: [],
  countsLocalhost: false,
  isLarge: false,
}
