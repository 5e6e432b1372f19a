/** The tables with rules of Services, in the order in which one restore writes them. */
export const tableNames = ['filter', 'nat'] as const
export type TableName = (typeof tableNames)[number]

/** All rules of one chain. */
export interface Chain {
  readonly name: string
  /** What follows `-A NAME `, as iptables-restore reads it; iptables-save sorts matches. */
  readonly lines: readonly string[]
}

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

/** Makes the chain, or empties the one that is there. */
export const emptied = (name: string): string => `:${name} - [0:0]`

export const isSameChain = (a: Chain, b: Chain | undefined): boolean =>
  a.name === b?.name && isSameList(a.lines, b.lines)

export const isSameList = (a: readonly string[], b: readonly string[]): boolean =>
  a.length === b.length && a.every((line, i) => line === b[i])

/** How many rules are in it, of each table. */
export const countRules = (
  rules: Readonly<Record<TableName, readonly Chain[]>>,
): Readonly<Record<TableName, number>> => {
  const count = (table: TableName): number =>
    rules[table].reduce((sum, { lines }) => sum + lines.length, 0)
  return { filter: count('filter'), nat: count('nat') }
}
