/** How the endpoint of a new connection is chosen. */
export interface BalancePolicy {
  /** For the reference; none where the name says it. */
  readonly help?: string
  /** Why one endpoint would be next. */
  readonly picked?: string
  /** How it is chosen among several that may be next. */
  readonly drawn?: string
  /** It counts connections of all workers. */
  readonly counts?: boolean
  /** Each client has its endpoint. */
  readonly isByClient?: boolean
}

/** One row a policy; balance/balancer.ts has what carries it out. */
const policies = {
  'round-robin': { picked: 'the next in turn' },
  'least-connections': {
    help: 'the one with the fewest connections of all workers',
    picked: 'the fewest connections',
    drawn: 'by chance, the one with fewer connections before',
    counts: true,
  },
  random: { drawn: 'by chance and weight' },
  maglev: {
    help: "by the client's address alone, the same on every node and after a restart",
    picked: "the client's own by maglev",
    isByClient: true,
  },
} as const satisfies Readonly<Record<string, BalancePolicy>>

export type BalanceBy = keyof typeof policies

export const balancePolicies: Readonly<Record<BalanceBy, BalancePolicy>> = policies

export const balanceNames = Object.keys(policies) as readonly BalanceBy[]

/** Of text that may name one, as of a file that is read. */
export const balancePolicyOf = (name: unknown): BalancePolicy | undefined =>
  byName.get(name)

const byName: ReadonlyMap<unknown, BalancePolicy> = new Map(Object.entries(policies))
