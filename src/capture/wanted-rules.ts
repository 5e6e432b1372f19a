import { isDeepStrictEqual } from 'node:util'
import type { IpFamily } from '../util/ip.ts'
import { KeyedList } from '../util/keyed-list.ts'
import { listDiff } from '../util/list-diff.ts'
import type { Placement } from './capture.ts'
import type { RuleChanges } from './family-rules.ts'
import { type VipRule, vipRules } from './vip-rule.ts'

type RuleLists = readonly (readonly VipRule[])[]

/**
 * The rules that placements ask for, and which of them are new since `applied` was last
 * called. An endpoint that comes or goes makes another placement, but mostly the same rules.
 */
export class WantedRules {
  readonly #lists = new KeyedList<Placement, readonly VipRule[]>(
    ({ listenerId }) => listenerId,
  )
  #wanted: RuleLists = []
  #applied: RuleLists = []

  async take(placements: readonly Placement[]): Promise<void> {
    this.#wanted = await this.#lists.update(placements, (placement, before) => {
      const rules = vipRules(placement)
      return before && isDeepStrictEqual(before, rules) ? before : rules
    })
  }

  /** A rule that was not changed is in neither list. */
  changes(): Readonly<Record<IpFamily, RuleChanges>> {
    const { before, after } = listDiff(this.#applied, this.#wanted)
    const [old, now] = [byKey(before), byKey(after)]
    const gone = [...old].flatMap(([key, rule]) => differing(rule, now.get(key)))
    const come = [...now].flatMap(([key, rule]) => differing(rule, old.get(key)))
    return {
      IPv4: { gone: ofFamily(gone, 'IPv4'), come: ofFamily(come, 'IPv4') },
      IPv6: { gone: ofFamily(gone, 'IPv6'), come: ofFamily(come, 'IPv6') },
    }
  }

  all(family: IpFamily): readonly VipRule[] {
    return ofFamily(this.#wanted.flat(), family)
  }

  /** The kernel has what was wanted last. */
  applied(): void {
    this.#applied = this.#wanted
  }
}

const byKey = (lists: RuleLists): ReadonlyMap<string, VipRule> =>
  new Map(lists.flat().map(rule => [`${rule.family} ${rule.key}`, rule]))

const differing = (rule: VipRule, other: VipRule | undefined): readonly VipRule[] =>
  other !== undefined && isDeepStrictEqual(rule, other) ? [] : [rule]

const ofFamily = (rules: readonly VipRule[], family: IpFamily): readonly VipRule[] =>
  rules.filter(rule => rule.family === family)
