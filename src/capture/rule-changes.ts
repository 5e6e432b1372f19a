import { isDeepStrictEqual } from 'node:util'
import type { UdpVip } from '../kernel/conntrack-plan.ts'
import type { UdpChanges } from '../kernel/keeper/rule-keeper.ts'
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
export class RuleUdpChanges implements UdpChanges<RuleLists> {
  #applied: RuleLists = []

  take(rules: RuleLists, all: boolean): readonly UdpVip[] {
    const { gone, come } = ruleChanges(this.#applied, rules)
    this.#applied = rules
    const vips = new Map<string, UdpVip>()
    for (const rule of gone.filter(isUdp)) vips.set(rule.key, { ...rule, to: undefined })
    const now = all ? rules.flat() : come
    for (const rule of now.filter(isUdp)) vips.set(rule.key, ledTo(rule))
    return [...vips.values()]
  }
}

const isUdp = ({ protocol }: VipRule): boolean => protocol === 'UDP'

const ledTo = ({ family, address, port, to, outside, fromNode }: VipRule): UdpVip => ({
  family,
  address,
  port,
  // Which of the two is not to be forwarded is for the relay to say, flow by flow.
  to: outside === 'forward' || fromNode === 'forward' ? [to] : undefined,
})
