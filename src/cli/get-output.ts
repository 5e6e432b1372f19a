import type { OptionsOf } from '../config/options.ts'
import { aligned, type Cells, columnWidths } from './columns.ts'
import { jsonText, yamlText } from './document-text.ts'
import { systemClock } from '../util/clock.ts'
import { wait } from '../util/wait.ts'
import { apiVersion } from './json-documents.ts'
import type { Item, Listing } from './listings.ts'
import { type Io, printAll } from './io.ts'

type Output = Pick<OptionsOf<'get'>, 'output' | 'noHeaders'>

export const printListing = async (
  listing: Listing,
  options: Output,
  io: Io,
): Promise<void> => {
  const { kind, one, items, left } = listing
  const { output } = options
  const document = {
    apiVersion,
    kind,
    metadata: { leftOut: left },
    items: items.map(item => item.document),
  }
  if (output === 'json') return io.out(`${jsonText(document, 2)}\n`)
  if (output === 'yaml') return io.out(await yamlText(document))
  if (items.length === 0) return io.err(`usher get: there are no ${one}s\n`)
  if (output === 'name') return io.out(namesOf(one, items))
  const rows = rowsOf(items, output === 'wide')
  const lines = [listing.head(output === 'wide'), ...rows]
  printRows(options.noHeaders ? rows : lines, columnWidths(lines), io)
}

const namesOf = (one: string, items: readonly Item[]): string =>
  items.map(({ name }) => `${one}/${name}\n`).join('')

const rowsOf = (items: readonly Item[], wide: boolean): readonly Cells[] => {
  const now = Date.now()
  return items.map(item => item.row(now, wide))
}

const printRows = (rows: readonly Cells[], widths: readonly number[], io: Io): void => {
  printAll(
    rows.map(row => `${aligned(row, widths, '', io.colour)}\n`),
    io,
  )
}

const watchEveryMs = 1000

type Change = readonly [type: 'ADDED' | 'MODIFIED' | 'DELETED', item: Item]

/** Prints all, then what changes, until nobody reads it; rejects when there is no answer any more. */
export const watchListing = async (
  list: () => Promise<Listing>,
  options: Output,
  io: Io,
): Promise<void> => {
  const isWide = options.output === 'wide'
  let known = new Map<string, readonly [text: string, item: Item]>()
  let widths: readonly number[] | undefined
  while (!io.gone.aborted) {
    const listing = await list()
    const now = new Map(
      listing.items.map(item => [keyOf(item), [textOf(item), item] as const]),
    )
    const changes = changesOf(known, now)
    known = now
    if (widths === undefined) {
      const head = listing.head(isWide)
      widths = columnWidths([head, ...rowsOf(listing.items, isWide)])
      const isTable = options.output === '' || isWide
      if (isTable && !options.noHeaders) printRows([head], widths, io)
    }
    await printChanges(changes, listing, widths, options, io)
    await wait(systemClock, watchEveryMs, io.gone)
  }
}

/** Endpoints of several Services may have one name. */
const keyOf = ({ name, document }: Item): string =>
  JSON.stringify([name, Object.entries(document).find(([key]) => key === 'route')])

const textOf = ({ document }: Item): string => JSON.stringify(document)

const changesOf = (
  before: ReadonlyMap<string, readonly [text: string, item: Item]>,
  after: ReadonlyMap<string, readonly [text: string, item: Item]>,
): readonly Change[] => {
  const gone = [...before].filter(([key]) => !after.has(key))
  const come = [...after].filter(([key, [text]]) => before.get(key)?.[0] !== text)
  return [
    ...gone.map(([, [, item]]): Change => ['DELETED', item]),
    ...come.map(([key, [, item]]): Change => [
      before.has(key) ? 'MODIFIED' : 'ADDED',
      item,
    ]),
  ]
}

const printChanges = async (
  changes: readonly Change[],
  { one }: Listing,
  widths: readonly number[],
  { output }: Output,
  io: Io,
): Promise<void> => {
  if (output === 'json' || output === 'yaml')
    for (const [type, { document }] of changes) {
      const event = { type, object: document }
      io.out(output === 'json' ? `${jsonText(event)}\n` : `---\n${await yamlText(event)}`)
    }
  // As kubectl does: what has gone is printed once more, as it was.
  else {
    const items = changes.map(([, item]) => item)
    if (output === 'name') io.out(namesOf(one, items))
    else printRows(rowsOf(items, output === 'wide'), widths, io)
  }
}
