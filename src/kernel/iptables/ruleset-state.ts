import { isDeepStrictEqual } from 'node:util'
import type { ServicePort, Snapshot } from '../../model/snapshot.ts'
import { forEachYielding } from '../../util/list-diff.ts'
import type { KernelSettings } from '../proxier.ts'
import type { ExpectedTable } from '../xtables/damage.ts'
import { localnetJump } from './jumps.ts'
import { kubeletFirewall } from '../xtables/kube-chains.ts'
import { type Chain, type TableName, tableNames } from '../xtables/wanted.ts'
import { type ChainEdit, countRules, Edits, isSameChain, noSizes } from './edits.ts'
import {
  assemble,
  type Context,
  type Features,
  type FullRules,
  healthCheckChain,
  largeCluster,
  makeContext,
  nodePortJumps,
  portalChain,
  type PortalKind,
  portalKindNames,
  portalKinds,
  type ServiceRules,
  serviceRules,
} from './full-rules.ts'

interface Entry {
  readonly servicePort: ServicePort
  readonly rules: ServiceRules
}

/** What has to be written so that the kernel has this ruleset. */
export interface RulesetChanges {
  /** Chains that are written whole. */
  readonly filter: readonly Chain[]
  readonly nat: readonly Chain[]
  readonly edits: readonly ChainEdit[]
  /** Chains of nat that nothing leads to any more. */
  readonly gone: readonly string[]
}

export const countWritten = (
  changes: RulesetChanges,
): Readonly<Record<TableName, number>> => {
  const count = { ...countRules(changes) }
  for (const { table, come } of changes.edits) count[table] += come.length
  return count
}

/**
 * The rules of all ServicePorts as they were written last: what was written of one stays
 * as it is until it changes, its comments too. After a rejection it is of no use.
 */
export class RulesetState {
  readonly #features: Features
  readonly #entries = new Map<string, Entry>()
  readonly #sizes = noSizes()
  #snapshot: Snapshot
  #settings: KernelSettings
  #endpoints = 0

  private constructor(snapshot: Snapshot, settings: KernelSettings, features: Features) {
    this.#snapshot = { ...snapshot, servicePorts: new Map() }
    this.#settings = settings
    this.#features = features
  }

  static async of(
    snapshot: Snapshot,
    settings: KernelSettings,
    features: Features,
  ): Promise<RulesetState> {
    const state = new RulesetState(snapshot, settings, features)
    await state.change(snapshot, settings)
    return state
  }

  /** Whether `change` takes these settings. The node's addresses are in one chain. */
  takes(settings: KernelSettings): boolean {
    const { nodeAddresses } = settings
    return isDeepStrictEqual({ ...this.#settings, nodeAddresses }, settings)
  }

  /** Turns to another snapshot, and says what that means for the kernel. */
  async change(snapshot: Snapshot, settings: KernelSettings): Promise<RulesetChanges> {
    const before = { snapshot: this.#snapshot, settings: this.#settings }
    const gone = this.#gone(snapshot)
    const come = this.#come(snapshot)
    this.#snapshot = snapshot
    this.#settings = settings
    const edits = new Edits(this.#sizes)
    await forEachYielding(gone, ({ servicePort: { key }, rules }) => {
      this.#entries.delete(key)
      edits.note(rules, undefined)
    })
    const context = this.#context(gone, come)
    await forEachYielding(come, servicePort => {
      const { key } = servicePort
      const rules = serviceRules(servicePort, context)
      edits.note(this.#entries.get(key)?.rules, rules)
      this.#entries.set(key, { servicePort, rules })
    })
    const ends = [before.settings, settings].map(each =>
      nodePortJumps(snapshot.family, each).join('\n'),
    )
    return this.#changes(edits, before.snapshot, ends[0] !== ends[1])
  }

  get isLarge(): boolean {
    return this.#endpoints > largeCluster
  }

  /** All of it, for a kernel of which nothing is known. */
  everything(): FullRules {
    const services = Array.from(this.#entries.values(), ({ rules }) => rules)
    return assemble(this.#snapshot, this.#settings, this.#features, services)
  }

  /** Names of the chains that ServicePorts have of their own. */
  serviceChains(): readonly string[] {
    const entries = [...this.#entries.values()]
    return entries.flatMap(({ rules }) => rules.chains.map(({ name }) => name))
  }

  /** What is there whatever Services there are. */
  #constant(): FullRules {
    return assemble(this.#snapshot, this.#settings, this.#features, [])
  }

  /** How many rules there are. */
  total(): Readonly<Record<TableName, number>> {
    const { filter, nat } = countRules(this.#constant())
    const total = { filter, nat: nat + this.#sizes.chains }
    for (const kind of portalKindNames)
      total[portalKinds[kind].table] += this.#sizes[kind]
    return total
  }

  /**
   * The chains that packets come to before a ServicePort's own, and the jumps to them; `whole`:
   * those of ServicePorts, as more.
   */
  expected(whole: boolean): readonly ExpectedTable[] {
    const constant = this.#constant()
    const jumps = { mangle: [], ...constant.jumps }
    const own = whole ? [...this.#entries.values()].flatMap(one => one.rules.chains) : []
    const ofServices = own.map(({ name, lines }) => ({ name, rules: lines.length }))
    const isGuarded = constant.filter.some(({ name }) => name === kubeletFirewall)
    return (['mangle', ...tableNames] as const).map(table => ({
      name: table,
      jumps:
        table === 'filter' && isGuarded ? [...jumps.filter, localnetJump] : jumps[table],
      more: table === 'nat' ? ofServices : [],
      chains: constant[table]
        .filter(({ name }) => name !== kubeletFirewall)
        .map(({ name, lines }) => {
          const kind = portalKindNames.find(
            each => portalKinds[each].table === table && portalKinds[each].chain === name,
          )
          const more = kind === undefined ? 0 : this.#sizes[kind]
          return { name, rules: lines.length + more }
        }),
    }))
  }

  #gone({ servicePorts }: Snapshot): readonly Entry[] {
    return [...this.#entries.values()].filter(
      ({ servicePort: { key } }) => !servicePorts.has(key),
    )
  }

  #come({ servicePorts }: Snapshot): readonly ServicePort[] {
    return [...servicePorts.values()].filter(
      each => this.#entries.get(each.key)?.servicePort !== each,
    )
  }

  #context(gone: readonly Entry[], come: readonly ServicePort[]): Context {
    const { family } = this.#snapshot
    for (const { servicePort } of gone) this.#endpoints -= servicePort.endpoints.length
    for (const { key, endpoints } of come) {
      const before = this.#entries.get(key)?.servicePort.endpoints.length ?? 0
      this.#endpoints += endpoints.length - before
    }
    return makeContext(family, this.#settings, this.#features, this.isLarge)
  }

  #changes(edits: Edits, before: Snapshot, otherEnd: boolean): RulesetChanges {
    const health = healthCheckChain(this.#snapshot)
    const healthChanged = !isSameChain(health, healthCheckChain(before))
    const whole = new Set<PortalKind>(otherEnd ? ['portals'] : [])
    const few: ChainEdit[] = []
    for (const [kind, lines] of edits.lines)
      if (!whole.has(kind) && isFew(lines, this.#sizes[kind]))
        few.push({
          ...lines,
          table: portalKinds[kind].table,
          name: portalKinds[kind].chain,
        })
      else whole.add(kind)
    const of = (table: TableName): readonly Chain[] =>
      [...whole]
        .filter(kind => portalKinds[kind].table === table)
        .map(kind => this.#portalChain(kind))
    return {
      filter: [...of('filter'), ...(healthChanged ? [health] : [])],
      nat: [...of('nat'), ...edits.chains],
      edits: few,
      gone: edits.gone,
    }
  }

  #portalChain(kind: PortalKind): Chain {
    const services = Array.from(this.#entries.values(), ({ rules }) => rules)
    return portalChain(kind, services, this.#settings, this.#snapshot.family)
  }
}

/** Of the lines of a shared chain, one in so many may change before all are written. */
const oneIn = 64

/**
 * iptables-nft takes 0.9 s to write a chain of 10 000 rules, 0.02 s to put one in, and
 * 0.2 s to take one out or forty. A counter of nfacct's is not the same to each that looks.
 */
const isFew = ({ gone, come }: Pick<ChainEdit, 'gone' | 'come'>, size: number): boolean =>
  (gone.length + come.length) * oneIn <= size &&
  !gone.some(line => line.includes(' -m nfacct '))
