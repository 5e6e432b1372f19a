import type { Owner } from './kube-chains.ts'
import type { SavedRule, SavedTable } from './saved.ts'
import { type Jump, textOf } from './wanted.ts'

/** Rules by which packets come into an owner's chains, those of older versions too. */
export const ownJumps = (
  { name, builtIn, rules }: SavedTable,
  owner: Owner,
  wanted: readonly Jump[] = [],
): readonly SavedRule[] => {
  const texts = new Set(wanted.map(textOf))
  return rules.filter(
    rule =>
      texts.has(rule.text) ||
      (!owner.hasChain(name, rule.chain) &&
        owner.hasChain(name, rule.target) &&
        owner.madeJump(rule, builtIn)),
  )
}

/**
 * The lines that make the jumps of a table right: none when they are. Those of older versions
 * go, and so do duplicates; others' rules between them stay where they are.
 */
export const jumpRepairs = (
  wanted: readonly Jump[],
  saved: SavedTable,
  owner: Owner,
): readonly string[] => {
  const own = ownJumps(saved, owner, wanted)
  const kept = new Map(wanted.map(jump => [jump, keptOf(jump, own, wanted)]))
  const stay = new Set(kept.values())
  const isUnsure = (jump: Jump): boolean => unsureIn(saved).includes(jump.chain)
  // Put in front of what iptables can't read they are sure to be there, and found next time.
  const blind = wanted.filter(isUnsure).toSorted((a, b) => a.at.localeCompare(b.at))
  return [
    ...own
      .filter(rule => !stay.has(rule) && rule.handle === undefined)
      .map(({ text }) => `-D ${text}`),
    ...wanted
      .filter(jump => !isUnsure(jump) && kept.get(jump) === undefined)
      .map(jump => `${jump.at === 'top' ? '-I' : '-A'} ${textOf(jump)}`),
    ...blind.map(jump => `-I ${textOf(jump)}`),
  ]
}

/** Chains that may have jumps which can't be seen. */
const unsureIn = ({ partial }: SavedTable): readonly string[] => partial?.unsure ?? []

/** Of several equal rules -D takes the first, which would be the right one at the top. */
const keptOf = (
  jump: Jump,
  own: readonly SavedRule[],
  wanted: readonly Jump[],
): SavedRule | undefined => {
  const same = own.filter(({ text }) => text === textOf(jump))
  if (jump.at === 'end') return same.at(-1)
  const [only, ...more] = same
  // Where iptables can't read, -D may not find one either; twice does no harm.
  const isAlone = more.length === 0 || only?.handle !== undefined
  return only !== undefined && isAlone && !isLate(only, own, wanted) ? only : undefined
}

/** What is wrong with the jumps of a table that was written; '' for nothing. */
export const jumpDamage = (
  wanted: readonly Jump[],
  saved: SavedTable,
  owner: Owner,
): string => {
  const own = ownJumps(saved, owner, wanted)
  for (const jump of wanted) {
    const place = `the jump from ${jump.chain} to ${jump.target}`
    // By its whole text: with another condition it leads other packets.
    const there = own.find(({ text }) => text === textOf(jump))
    if (there === undefined && unsureIn(saved).includes(jump.chain)) continue
    if (there === undefined) return `${place} is gone (table ${saved.name})`
    if (jump.at === 'top' && isLate(there, own, wanted))
      return `${place} comes too late (table ${saved.name})`
  }
  return ''
}

const leadsBy = (rule: SavedRule, { chain, target }: Jump): boolean =>
  rule.chain === chain && rule.target === target

/** Whether it comes after a jump that has to be at the end of its chain. */
const isLate = (
  rule: SavedRule,
  own: readonly SavedRule[],
  wanted: readonly Jump[],
): boolean => {
  const last = wanted.filter(({ chain, at }) => chain === rule.chain && at === 'end')
  const before = own.slice(0, own.indexOf(rule))
  return last.some(jump => before.some(one => leadsBy(one, jump)))
}
