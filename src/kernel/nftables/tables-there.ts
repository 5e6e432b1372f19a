import { type RunTool, ToolError } from '../run-tool.ts'
import type { ChainPart, Part } from '../nft/parts.ts'
import { isAffinitySet } from './layout.ts'

/** A chain or a set that is in a table. */
export type Found = Pick<Part, 'kind' | 'name'>

/**
 * What an earlier process, or this one, has left in a table, without elements. `none`: there is no
 * table; `strange`: it has what this layout has not, and is to be made anew.
 */
export type TableThere = readonly Found[] | 'none' | 'strange'

/**
 * `sets`: the names of those that the layout has; `devices`: those of its flowtable. Rejects with
 * ToolError.
 */
export const tableThere = async (
  run: RunTool,
  table: string,
  sets: ReadonlySet<string>,
  devices: readonly string[],
): Promise<TableThere> => {
  try {
    const text = await run('nft', ['-t', 'list', 'table', ...table.split(' ')])
    return hasOtherDevices(text, devices) ? 'strange' : found(text, sets)
  } catch (error) {
    if (error instanceof ToolError && /No such file/.test(error.stderr)) return 'none'
    throw error
  }
}

const found = (text: string, sets: ReadonlySet<string>): TableThere => {
  const all: Found[] = []
  for (const [, kind = '', name = ''] of text.matchAll(/^\t(\w+) (\S+) \{/gm)) {
    if (kind === 'chain') all.push({ kind, name })
    else if (kind === 'set' && isAffinitySet(name)) all.push({ kind, name })
    else if (kind !== 'flowtable' && !sets.has(name)) return 'strange'
  }
  return all
}

/** A flowtable can be given more of them, and none can be taken from it. */
const hasOtherDevices = (text: string, devices: readonly string[]): boolean => {
  const [, has = ''] = /^\tflowtable \S+ \{[^}]*devices = \{ ([^}]*) \}/m.exec(text) ?? []
  const known = has.split(',').flatMap(name => name.trim().replaceAll('"', '') || [])
  return (
    /^\tflowtable /m.test(text) &&
    (devices.length === 0 || known.some(name => !devices.includes(name)))
  )
}

/** Those that the layout has not by itself. */
export const ofServices = (
  there: readonly Found[],
  fixed: readonly ChainPart[],
): readonly Found[] => {
  const names = new Set(fixed.map(({ name }) => name))
  return there.filter(({ name }) => !names.has(name))
}
