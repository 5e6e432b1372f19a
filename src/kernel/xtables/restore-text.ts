import { forEachYielding } from '../../util/yielding.ts'
import { type Backend, isTaken } from './backend.ts'
import type { Owner } from './kube-chains.ts'
import { ownJumps } from './jumps.ts'
import { deleteByNft } from './nft-rules.ts'
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

/** What is to be taken out of one table. */
export interface Removal {
  /** Rules of chains that stay. */
  readonly rules: readonly SavedRule[]
  readonly chains: readonly string[]
}

/** In one transaction. Chains of `held` are emptied only. */
export const removalText = (
  table: string,
  { rules, chains }: Removal,
  held: ReadonlySet<string> = new Set(),
): Promise<string> =>
  // A chain with rules could not be deleted.
  tableText(table, chains, [
    ...rules.map(({ text }) => `-D ${text}`),
    ...chains.filter(chain => !held.has(chain)).map(chain => `-X ${chain}`),
  ])

/** Milliseconds; iptables-nft takes 10 s for the chains of 10 000 Services. */
const timeoutMs = 300_000

/** Rules of one text that may be in one chain. */
const mostEqual = 10_000

/**
 * Takes them out, and gives the chains that are emptied, but had to stay, as a rule leads there
 * that can't be read. Rejects with ToolError.
 */
export const takeOut = async (
  backend: Backend,
  table: string,
  { rules, chains }: Removal,
  held?: ReadonlySet<string>,
): Promise<readonly string[]> => {
  const works = (text: string): Promise<boolean> =>
    isTaken(async () => text === '' || backend.restore(text, { timeoutMs }))
  const own = rules.filter(({ handle }) => handle === undefined)
  await deleteByNft(
    backend,
    table,
    rules.filter(rule => !own.includes(rule)),
  )
  if (await works(await removalText(table, { rules: own, chains }, held))) return []
  // One by one, so that what stays leads nowhere.
  await backend.restore(await tableText(table, chains, []), { timeoutMs })
  for (const text of new Set(own.map(rule => rule.text))) {
    const removal = await tableText(table, [], [`-D ${text}`])
    for (let left = mostEqual; left > 0 && (await works(removal)); left--);
  }
  const stayed: string[] = []
  for (const chain of chains)
    if (
      held?.has(chain) !== true &&
      !(await works(await tableText(table, [], [`-X ${chain}`])))
    )
      stayed.push(chain)
  return stayed
}

/** Takes out all of an owner's chains, and its jumps to them; as `takeOut`. */
export const takeOutAll = (
  backend: Backend,
  saved: SavedTable,
  owner: Owner,
): Promise<readonly string[]> => {
  const chains = [...saved.chains.keys()].filter(chain =>
    owner.hasChain(saved.name, chain),
  )
  const jumps = new Set(ownJumps(saved, owner))
  const others = saved.rules.filter(rule => !jumps.has(rule))
  const held = new Set(others.map(({ target }) => target))
  return takeOut(backend, saved.name, { rules: [...jumps], chains }, held)
}
