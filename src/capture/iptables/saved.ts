import { linesOf } from '../../util/lines-of.ts'
import { forEachYielding } from '../../util/yielding.ts'
import { isOwnChain, type Jump, jumps, type TableName } from './names.ts'

/** A rule of somebody else's chain that leads into one of Usher's. */
export interface SavedJump {
  readonly chain: string
  /** What follows `-A CHAIN`, as printed; `-D CHAIN` takes it too. */
  readonly line: string
  readonly target: string
}

/** What `iptables-save -t TABLE`, or `iptables -S CHAIN`, said of Usher's rules. */
export interface SavedTable {
  /** Usher's chains, and how many rules each has. */
  readonly chains: ReadonlyMap<string, number>
  /** In the order of the kernel's. */
  readonly jumps: readonly SavedJump[]
}

/** Reads both formats; lets others have their turn meanwhile. */
export const readSaved = async (text: string): Promise<SavedTable> => {
  const chains = new Map<string, number>()
  const found: SavedJump[] = []
  await forEachYielding(linesOf(text), line => {
    const declared = /^(?::|-N )(\S+)/.exec(line)?.[1]
    if (declared !== undefined) {
      if (isOwnChain(declared)) chains.set(declared, 0)
      return
    }
    if (!line.startsWith('-A ')) return
    const end = line.indexOf(' ', 3)
    const chain = line.slice(3, end)
    const rules = chains.get(chain)
    if (rules !== undefined) chains.set(chain, rules + 1)
    else {
      const target = / -[jg] (KUBE-\S+)$/.exec(line)?.[1]
      if (target !== undefined && isOwnChain(target))
        found.push({ chain, line: line.slice(end + 1), target })
    }
  })
  return { chains, jumps: found }
}

/**
 * The lines that make the jumps of a table what they have to be, in one transaction:
 * nothing when they are. Others' rules between them stay where they are.
 */
export const jumpRepairs = (table: TableName, saved: readonly SavedJump[]): string[] => {
  const wanted = jumps.filter(jump => jump.table === table)
  const kept = new Set<SavedJump>()
  const missing: Jump[] = []
  for (const jump of wanted) {
    const there = saved.find(one => isSame(one, jump) && isInPlace(one, saved))
    if (there === undefined) missing.push(jump)
    else kept.add(there)
  }
  const out = saved.filter(jump => !kept.has(jump))
  return [
    ...out.map(({ chain, line }) => `-D ${chain} ${line}`),
    ...missing.map(({ chain, line, at }) =>
      `${at === 'top' ? '-I' : '-A'} ${chain} ${line}`.trim(),
    ),
  ]
}

/** What is wrong with the jumps of a table; '' when nothing is. */
export const jumpDamage = (table: TableName, saved: readonly SavedJump[]): string => {
  for (const jump of jumps) {
    if (jump.table !== table) continue
    const place = `the jump from ${jump.chain} to ${jump.target}`
    const there = saved.find(one => leadsThere(one, jump))
    if (there === undefined) return `${place} is gone`
    if (!isInPlace(there, saved)) return `${place} comes too late`
  }
  return ''
}

const leadsThere = (one: SavedJump, { chain, target }: Jump): boolean =>
  one.chain === chain && one.target === target

const isSame = (one: SavedJump, jump: Jump): boolean =>
  leadsThere(one, jump) && one.line === jump.line

/** VIPs have to come before node ports: a VIP may be one of the host's addresses. */
const isInPlace = (one: SavedJump, all: readonly SavedJump[]): boolean => {
  const wanted = jumps.find(jump => leadsThere(one, jump))
  if (wanted?.at !== 'top') return true
  const later = jumps.filter(
    ({ table, chain, at }) =>
      table === wanted.table && chain === wanted.chain && at === 'end',
  )
  const position = all.indexOf(one)
  return later.every(
    jump => !all.slice(0, position).some(before => leadsThere(before, jump)),
  )
}
