import { isDeepStrictEqual } from 'node:util'
import type { FlowVip } from '../kernel/conntrack.ts'
import type { FlowChanges } from '../kernel/keeper/rule-keeper.ts'
import { listDiff } from '../util/list-diff.ts'
import type { VipRule } from './vip-rule.ts'

/** The rules of a family, by ServicePort: what did not change is the same list. */
export type RuleLists = readonly (readonly VipRule[])[]

/** Rules that are to be taken out and put in; one that did not change is in neither. */
export interface RuleChanges {
  readonly gone: readonly VipRule[]
  readonly come: readonly VipRule[]
}

export const ruleChanges = (from: RuleLists, to: RuleLists): RuleChanges => {
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
export class RuleFlowChanges implements FlowChanges<RuleLists> {
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
