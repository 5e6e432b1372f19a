import { canonicalAddress, socketText } from './addresses.ts'
import type { Moment } from './matches.ts'
import type { RuleSet } from './rule-set.ts'
import { walk, type Ended, type State } from './walk.ts'

export interface Packet {
  /** Where it comes in; '' for one that a process of the node sends. */
  readonly inInterface: string
  readonly source: string
  readonly destination: string
  readonly protocol: 'tcp' | 'udp'
  readonly port: number
  /** The node's addresses; loopback's are its own in any case. */
  readonly nodeAddresses: readonly string[]
  /** What conntrack says of it; by default NEW. Only such packets meet the table nat. */
  readonly state?: 'NEW' | 'ESTABLISHED' | 'INVALID'
  /** xt_recent's lists that hold the source; undefined: any may or may not. */
  readonly seen?: readonly string[]
}

/** One thing that may become of a packet. */
export interface Outcome {
  readonly verdict: 'ACCEPT' | 'DROP' | 'REJECT'
  /** Where it goes; undefined when nothing gave it another destination. */
  readonly endpoint: string | undefined
  readonly masqueraded: boolean
  /** How likely it is; NaN after a match that may or may not hold. */
  readonly share: number
}

/**
 * What may become of a packet, by the tables nat and filter. Rules in other tables, or in
 * nat's INPUT, are more than this knows, and an error.
 */
export const trace = (rules: RuleSet, packet: Packet): readonly Outcome[] => {
  refuseOthers(rules)
  const { inInterface, source, nodeAddresses, state: conntrack = 'NEW' } = packet
  const own = new Set(nodeAddresses.map(canonicalAddress))
  const isLocal = (address: string): boolean =>
    own.has(address) || address.startsWith('127.') || address === '::1'
  const moment = (state: State, by: string): Moment => ({
    source: canonicalAddress(source),
    destination: state.destination,
    port: state.port,
    protocol: packet.protocol,
    inInterface: by,
    mark: state.mark,
    states: new Set([conntrack, ...(state.translated ? ['DNAT'] : [])]),
    isLocal,
    seen: packet.seen && new Set(packet.seen),
  })
  const through = (table: 'nat' | 'filter', chain: string, by: string) => {
    const look = (state: State): Moment => moment(state, by)
    return (before: readonly Ended[]): readonly Ended[] =>
      table === 'nat' && conntrack !== 'NEW'
        ? before
        : before.flatMap(one =>
            one.verdict === 'ACCEPT' ? walk(rules, table, chain, one.state, look) : [one],
          )
  }
  const start: Ended = {
    verdict: 'ACCEPT',
    state: {
      destination: canonicalAddress(packet.destination),
      port: packet.port,
      mark: 0,
      share: 1,
      translated: false,
      masqueraded: false,
    },
  }
  const sent = (): readonly Ended[] => {
    const out = through('filter', 'OUTPUT', '')(through('nat', 'OUTPUT', '')([start]))
    const posted = through('nat', 'POSTROUTING', '')(out)
    return posted.flatMap(one =>
      isLocal(one.state.destination) ? through('filter', 'INPUT', 'lo')([one]) : [one],
    )
  }
  const arrived = (): readonly Ended[] =>
    through(
      'nat',
      'PREROUTING',
      inInterface,
    )([start]).flatMap(one =>
      isLocal(one.state.destination)
        ? through('filter', 'INPUT', inInterface)([one])
        : through(
            'nat',
            'POSTROUTING',
            '',
          )(through('filter', 'FORWARD', inInterface)([one])),
    )
  return (inInterface === '' ? sent() : arrived()).map(outcomeOf)
}

const refuseOthers = (rules: RuleSet): void => {
  for (const [table, chains] of rules)
    for (const [name, chain] of chains)
      if (
        (!['nat', 'filter'].includes(table) || (table === 'nat' && name === 'INPUT')) &&
        (chain.rules.length > 0 || chain.policy === 'DROP')
      )
        throw new Error(`${name} of table ${table} has rules`)
}

const outcomeOf = ({ verdict, state }: Ended): Outcome => ({
  verdict,
  endpoint: state.translated ? socketText(state.destination, state.port) : undefined,
  masqueraded: verdict === 'ACCEPT' && state.masqueraded,
  share: state.share,
})

/**
 * As one line: `REJECT`, `DROP`, `untouched`, or the endpoints it may go to,
 * `10.0.0.1:80 10.0.0.2:80`, each with `(masqueraded)` where it loses its source.
 */
export const told = (outcomes: readonly Outcome[]): string => {
  const texts = outcomes.map(({ verdict, endpoint = 'untouched', masqueraded }) =>
    verdict === 'ACCEPT' ? `${endpoint}${masqueraded ? ' (masqueraded)' : ''}` : verdict,
  )
  return [...new Set(texts)].toSorted().join(' ')
}

/** How likely each endpoint is. */
export const shares = (
  outcomes: readonly Outcome[],
): Readonly<Record<string, number>> => {
  const sums: Record<string, number> = {}
  for (const { endpoint = '', share } of outcomes)
    sums[endpoint] = (sums[endpoint] ?? 0) + share
  return sums
}
