import { forEachYielding } from '../../util/yielding.ts'
import type { Owner } from './kube-chains.ts'
import { ownJumps } from './jumps.ts'
import type { SavedRule, SavedTable } from './saved.ts'
import type { Chain } from './wanted.ts'

/**
 * One transaction as input of `iptables-restore --noflush`; '' for nothing. A chain that is
 * declared is made, or emptied where it is there. Other tasks run in between: a table may
 * have 100 000 lines.
 */
export const tableText = async (
  table: string,
  declared: Iterable<string>,
  lines: Iterable<string>,
): Promise<string> => {
  let text = ''
  await forEachYielding(declared, chain => {
    text += `:${chain} - [0:0]\n`
  })
  await forEachYielding(lines, line => {
    text += `${line}\n`
  })
  return text === '' ? '' : `*${table}\n${text}COMMIT\n`
}

/** All rules of some chains, then other lines. */
export function* chainLines(
  chains: Iterable<Chain>,
  rest: Iterable<string> = [],
): Generator<string> {
  for (const { name, lines } of chains)
    for (const line of lines) yield `-A ${name} ${line}`
  yield* rest
}

/** Takes out rules of chains that stay, and whole chains. */
export const removalText = (
  table: string,
  rules: readonly SavedRule[],
  chains: readonly string[],
  held: ReadonlySet<string> = new Set(),
): Promise<string> =>
  // A chain with rules could not be deleted.
  tableText(table, chains, [
    ...rules.map(({ text }) => `-D ${text}`),
    ...chains.filter(chain => !held.has(chain)).map(chain => `-X ${chain}`),
  ])

/**
 * Takes out all of an owner's chains, and its jumps to them. A chain that a rule of another
 * program leads to is emptied only.
 */
export const removeText = (saved: SavedTable, owner: Owner): Promise<string> => {
  const chains = [...saved.chains.keys()].filter(chain =>
    owner.hasChain(saved.name, chain),
  )
  const jumps = new Set(ownJumps(saved, owner))
  const others = saved.rules.filter(rule => !jumps.has(rule))
  const held = new Set(others.map(({ target }) => target))
  return chains.length === 0
    ? Promise.resolve('')
    : removalText(saved.name, [...jumps], chains, held)
}
