import { forEachYielding } from '../../util/list-diff.ts'
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

/** Milliseconds; iptables-nft takes 10 s for the chains of 10 000 Services. */
const timeoutMs = 300_000

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
  const works = async (declared: readonly string[], lines: readonly string[]) => {
    const text = await tableText(table, declared, lines)
    return isTaken(async () => text === '' || backend.restore(text, { timeoutMs }))
  }
  await deleteByNft(
    backend,
    table,
    rules.filter(({ handle }) => handle !== undefined),
  )
  const own = rules.filter(({ handle }) => handle === undefined)
  const lines = [
    ...own.map(({ text }) => `-D ${text}`),
    ...chains.filter(chain => held?.has(chain) !== true).map(chain => `-X ${chain}`),
  ]
  // A chain with rules could not be deleted.
  if (await works(chains, lines)) return []
  // One by one, so that what stays leads nowhere; of equal rules only the first may be known.
  const stayed: string[] = []
  await works(chains, [])
  for (const line of lines) {
    let isGone = await works([], [line])
    if (line.startsWith('-X') && !isGone) stayed.push(line.slice(3))
    while (line.startsWith('-D') && isGone) isGone = await works([], [line])
  }
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
