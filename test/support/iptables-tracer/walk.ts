import type { Match, Moment } from './matches.ts'
import type { Rule } from './rule.ts'
import type { RuleSet } from './rule-set.ts'
import type { Target } from './targets.ts'

/** What rules have made of a packet so far, in one of the ways it may go. */
export interface State {
  readonly destination: string
  readonly port: number
  readonly mark: number
  readonly share: number
  readonly translated: boolean
  readonly masqueraded: boolean
}

export interface Ended {
  readonly verdict: 'ACCEPT' | 'DROP' | 'REJECT'
  readonly state: State
}

type Look = (state: State) => Moment

/** Where each target that changes or ends something may be: the kernel has it so. */
const allowedIn: Readonly<Record<string, readonly string[]>> = {
  DNAT: ['nat PREROUTING', 'nat OUTPUT'],
  MASQUERADE: ['nat POSTROUTING'],
  REJECT: ['filter INPUT', 'filter FORWARD', 'filter OUTPUT'],
}

/** A packet's ways through a built-in chain; fails on more jumps than a path can have. */
export const walk = (
  rules: RuleSet,
  table: string,
  chain: string,
  state: State,
  look: Look,
): readonly Ended[] => {
  const hook = `${table} ${chain}`
  const policy = rules.get(table)?.get(chain)?.policy
  if (policy === undefined) throw new Error(`no built-in chain ${hook}`)
  const ended: Ended[] = []
  const through = (name: string, first: State, depth: number): State[] => {
    const found = rules.get(table)?.get(name)
    if (found === undefined) throw new Error(`no chain ${name} in table ${table}`)
    if (depth > 16) throw new Error(`jumps without end: ${name}`)
    const returned: State[] = []
    let live: readonly State[] = [first]
    for (const rule of found.rules) {
      live = live.flatMap(one => {
        const { hit, missed } = split(one, rule, look)
        if (hit === undefined) return missed
        const { target } = rule
        if (target?.kind === 'RETURN') {
          returned.push(hit)
          return missed
        }
        if (target?.kind === 'chain')
          return [...missed, ...through(target.chain, hit, depth + 1)]
        const next = act(target, hit, hook)
        if ('verdict' in next) ended.push(next)
        return 'verdict' in next ? missed : [...missed, next]
      })
      if (live.length === 0) break
    }
    return [...returned, ...live]
  }
  for (const left of through(chain, state, 0))
    ended.push({ verdict: policy, state: left })
  return ended
}

/** The ways in which the rule holds, and in which it does not. */
const split = (
  state: State,
  { matches }: Rule,
  look: Look,
): { hit: State | undefined; missed: State[] } => {
  const moment = look(state)
  let likely = 1
  for (const { test } of matches) {
    const answer = likelihood(test, moment)
    if (answer === 0) return { hit: undefined, missed: [state] }
    likely *= answer
  }
  if (likely === 1) return { hit: state, missed: [] }
  const withShare = (share: number): State => ({ ...state, share: state.share * share })
  return { hit: withShare(likely), missed: [withShare(1 - likely)] }
}

/** NaN: it may or may not hold. */
const likelihood = (test: Match['test'], moment: Moment): number => {
  const answer = test(moment)
  if (answer === 'unknown') return Number.NaN
  return Number(answer)
}

const act = (target: Target | undefined, state: State, hook: string): State | Ended => {
  if (target === undefined) return state
  if (allowedIn[target.kind]?.includes(hook) === false)
    throw new Error(`${target.kind} in ${hook}`)
  switch (target.kind) {
    case 'MARK':
      return { ...state, mark: target.change(state.mark) }
    case 'MASQUERADE':
      return { verdict: 'ACCEPT', state: { ...state, masqueraded: true } }
    case 'DNAT': {
      const { address: destination, port } = target
      const translated = { ...state, destination, port, translated: true }
      return { verdict: 'ACCEPT', state: translated }
    }
    case 'RETURN':
    case 'chain':
      throw new Error(`${target.kind} is not for here`)
    case 'ACCEPT':
    case 'DROP':
    case 'REJECT':
    default:
      return { verdict: target.kind, state }
  }
}
