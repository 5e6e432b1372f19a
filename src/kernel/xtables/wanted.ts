/** The tables with rules of Services, in the order in which one restore writes them. */
export const tableNames = ['filter', 'nat'] as const
export type TableName = (typeof tableNames)[number]

/** All rules of one chain. */
export interface Chain {
  readonly name: string
  /** What follows `-A NAME `, as iptables-restore reads it; iptables-save sorts matches. */
  readonly lines: readonly string[]
}

/** A rule in a chain of the kernel's, or of the kubelet's, that leads into one of Usher's. */
export interface Jump {
  readonly chain: string
  readonly target: string
  /** What follows `-A CHAIN `, as iptables-save prints it. */
  readonly line: string
  /** Before or after the other rules of the chain. */
  readonly at: 'top' | 'end'
}

/** `match` is everything before `-j`. */
export const jumpTo = (
  chain: string,
  target: string,
  match: string,
  at: Jump['at'] = 'top',
): Jump => ({ chain, target, line: `${match} -j ${target}`.trim(), at })

/** A packet that begins a connection. */
export const newConnection = '-m conntrack --ctstate NEW'

export const jumpComment = (text: string): string => `-m comment --comment "${text}"`

/** As `SavedRule.text`. */
export const textOf = ({ chain, line }: Pick<Jump, 'chain' | 'line'>): string =>
  `${chain} ${line}`
