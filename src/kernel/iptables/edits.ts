import type { Chain, TableName } from '../xtables/wanted.ts'
import { type PortalKind, portalKindNames, type ServiceRules } from './full-rules.ts'

/** How many rules ServicePorts have, by where they are. */
export type Sizes = Record<PortalKind | 'chains', number>

export const noSizes = (): Sizes => ({
  refused: 0,
  refusedOutside: 0,
  firewall: 0,
  portals: 0,
  nodePorts: 0,
  chains: 0,
})

/** Lines of a shared chain. */
interface LineChanges {
  readonly gone: string[]
  readonly come: string[]
}

/** What has to be done in the kernel after the rules of some ServicePorts have changed. */
export class Edits {
  /**
   * By the shared chain they are in; all lines that a ServicePort has in it, so that they
   * stay in their order.
   */
  readonly lines = new Map<PortalKind, LineChanges>()
  /** Own chains of ServicePorts that are new or have other rules. */
  readonly chains: Chain[] = []
  /** Those that nothing leads to any more. */
  readonly gone: string[] = []
  readonly #sizes: Sizes

  /** Keeps `sizes` up to date. */
  constructor(sizes: Sizes) {
    this.#sizes = sizes
  }

  /** Of one ServicePort; undefined when it is new or gone. */
  note(before: ServiceRules | undefined, after: ServiceRules | undefined): void {
    for (const kind of portalKindNames) {
      const [old, now] = [before?.[kind] ?? [], after?.[kind] ?? []]
      if (!isSameList(old, now)) this.#note(kind, old, now)
      this.#sizes[kind] += now.length - old.length
    }
    this.#sizes.chains += linesOf(after) - linesOf(before)
    const left = new Map(before?.chains.map(chain => [chain.name, chain]))
    for (const chain of after?.chains ?? []) {
      if (!isSameChain(chain, left.get(chain.name))) this.chains.push(chain)
      left.delete(chain.name)
    }
    this.gone.push(...left.keys())
  }

  #note(kind: PortalKind, old: readonly string[], now: readonly string[]): void {
    const changes = this.lines.get(kind) ?? { gone: [], come: [] }
    changes.gone.push(...old)
    changes.come.push(...now)
    this.lines.set(kind, changes)
  }
}

const linesOf = (rules: ServiceRules | undefined): number =>
  rules?.chains.reduce((sum, { lines }) => sum + lines.length, 0) ?? 0

/** Some rules of a chain: those that go, and those that come before all that stay. */
export interface ChainEdit {
  readonly table: TableName
  readonly name: string
  readonly gone: readonly string[]
  readonly come: readonly string[]
}

/** As iptables-restore reads it. What comes, comes in the order it is in. */
export const editLines = ({ name, gone, come }: ChainEdit): readonly string[] => [
  ...gone.map(line => `-D ${name} ${line}`),
  ...come.toReversed().map(line => `-I ${name} ${line}`),
]

export const isSameChain = (a: Chain, b: Chain | undefined): boolean =>
  a.name === b?.name && isSameList(a.lines, b.lines)

const isSameList = (a: readonly string[], b: readonly string[]): boolean =>
  a.length === b.length && a.every((line, i) => line === b[i])

/** How many rules are in it, of each table. */
export const countRules = (
  rules: Readonly<Record<TableName, readonly Chain[]>>,
): Readonly<Record<TableName, number>> => {
  const count = (table: TableName): number =>
    rules[table].reduce((sum, { lines }) => sum + lines.length, 0)
  return { filter: count('filter'), nat: count('nat') }
}
