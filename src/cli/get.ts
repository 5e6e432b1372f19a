import type { OptionsOf } from '../config/options.ts'
import { listedKindsText } from '../config/options/control.ts'
import { UsageError } from '../config/usage-error.ts'
import {
  endpointsShape,
  listedShape,
  listenersShape,
  type StatusOf,
} from '../observe/status.ts'
import { suggest } from '../util/suggest.ts'
import { UsherError } from '../util/usher-error.ts'
import { askCommand, askPorts, exitCodeOf } from './ask-usher.ts'
import {
  isInNamespace,
  type Kind,
  kindNames,
  type ColumnChoice,
  type Listing,
  listings,
  bareName,
  emptyReason,
  isCalled,
  type Named,
  notFound,
  type Item,
} from './listings.ts'
import { type Io, printAll, count, visible } from './io.ts'
import { aligned, type Cells, columnWidths } from './text-table.ts'
import { documentText, jsonText, yamlText } from './document-text.ts'
import { systemClock, wait } from '../util/clock.ts'
import { apiVersion } from './json-documents.ts'

type Options = OptionsOf<'get'>

/** `usher get`: 0, 1 when there is nothing of a name, or nothing yet, 3 with the reason when there is no answer. */
export const get = (options: Options, io: Io): Promise<number> => {
  const { kind, names } = wantedOf(options)
  const shown = new Set<string>()
  const note = (text: string): void => {
    if (!shown.has(text)) io.err(`usher get: ${visible(text)}\n`)
    shown.add(text)
  }
  const list = (): Promise<Listing> =>
    kind === 'connections'
      ? connections(names, options, note)
      : served(kind, names, options)
  return exitCodeOf('get', io, async () => {
    if (options.watch) {
      await watchListing(list, options, io)
      return 0
    }
    const listing = await list()
    await printListing(listing, options, io)
    if (listing.left > 0)
      note(
        `${count(listing.left, 'connection')} more are left out; a name lists those of one Service or route`,
      )
    return 0
  })
}

/** `svc`, `services default/web`, `service/default/web`. */
const wantedOf = ({
  kind: [first = '', ...more],
  route,
}: Options): { readonly kind: Kind; readonly names: readonly string[] } => {
  const [word = '', ...rest] = first.split('/')
  const kind = kindNames.get(word)
  if (kind === undefined) {
    const meant = suggest(word, [...kindNames.keys()])
    const hint =
      meant === undefined ? `give ${listedKindsText}` : `did you mean ${meant}?`
    throw new UsageError(`${JSON.stringify(word)} is not a kind; ${hint}`, 'get')
  }
  const name = rest.length === 0 ? [] : [rest.join('/')]
  const names = [...name, ...more, ...route].map(one => bareName(one, kind))
  return { kind, names: names.map(one => bareName(one, 'services')) }
}

/** Usher is asked for what the kind is made of. */
const served = async (
  kind: Exclude<Kind, 'connections'>,
  names: readonly string[],
  options: Options,
): Promise<Listing> => {
  if (kind === 'endpoints')
    return chosen(await askPorts(options, endpointsShape), listings[kind], names, options)
  if (kind === 'listeners')
    return chosen(await askPorts(options, listenersShape), listings[kind], names, options)
  return chosen(await askPorts(options, listedShape), listings[kind], names, options)
}

/** Of what is served what was asked for. */
const chosen = <P extends Named>(
  status: StatusOf<P>,
  list: (ports: readonly P[]) => Listing,
  names: readonly string[],
  options: Options,
): Listing => {
  const reason = emptyReason(status)
  // Who watches waits for what comes.
  if (reason !== '' && !options.watch) throw new UsherError('NOT_FOUND', reason)
  const { servicePorts } = status
  const { namespace } = options
  const ports = servicePorts.filter(port => isInNamespace(port.servicePort, namespace))
  const all = list(ports)
  if (names.length === 0) return all
  const called = ports.filter(port => names.some(name => isCalled(port, name)))
  const others = names.filter(name => !ports.some(port => isCalled(port, name)))
  const alone = all.items.filter(({ name }) => others.includes(name))
  const unknown = others.find(name => !alone.some(one => one.name === name))
  if (unknown !== undefined) throw notFound(unknown, ports)
  return { ...all, items: [...list(called).items, ...alone] }
}

const connections = async (
  names: readonly string[],
  options: Options,
  note: (text: string) => void,
): Promise<Listing> => {
  const request = names.length === 0 ? {} : { routes: names }
  const answer = await askCommand(options, 'connections', request)
  const { connections: all, left, notes } = answer
  for (const text of notes) note(text)
  const { namespace } = options
  return listings.connections(
    all.filter(({ route }) => isInNamespace(route, namespace)),
    left,
  )
}

type Output = Pick<OptionsOf<'get'>, 'output' | 'noHeaders' | 'namespace'>

/** As kubectl has it: of one namespace there is no column of namespaces. */
const columnChoice = ({ output, namespace }: Output): ColumnChoice => ({
  wide: output === 'wide',
  namespaces: namespace === '',
})

export const printListing = async (
  listing: Listing,
  options: Output,
  io: Io,
): Promise<void> => {
  const { kind, one, items, left } = listing
  const { output } = options
  if (output === 'json' || output === 'yaml') {
    const documents = items.map(({ document }) => document())
    const list = { apiVersion, kind, metadata: { leftOut: left }, items: documents }
    return io.out(await documentText(list, output))
  }
  if (items.length === 0) return io.err(`usher get: there are no ${one}s\n`)
  if (output === 'name') return io.out(namesOf(one, items))
  const layout = columnChoice(options)
  const rows = rowsOf(items, layout)
  const lines = [listing.head(layout), ...rows]
  printRows(options.noHeaders ? rows : lines, columnWidths(lines), io)
  if (!listing.isCounted) io.err(uncountedNote)
}

const uncountedNote =
  'usher get: "-" is not counted: no relay of Usher carries these connections\n'

const namesOf = (one: string, items: readonly Item[]): string =>
  items.map(({ name }) => `${one}/${name}\n`).join('')

const rowsOf = (items: readonly Item[], layout: ColumnChoice): readonly Cells[] => {
  const now = Date.now()
  return items.map(item => item.row(now, layout))
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
const watchListing = async (
  list: () => Promise<Listing>,
  options: Output,
  io: Io,
): Promise<void> => {
  const layout = columnChoice(options)
  const isTable = options.output === '' || layout.wide
  let known = new Map<string, readonly [text: string, item: Item]>()
  let widths: readonly number[] | undefined
  while (!io.gone.aborted) {
    const listing = await list()
    const now = new Map(
      listing.items.map(item => [keyOf(item), [textOf(item), item] as const]),
    )
    const changes = changesOf(known, now)
    known = now
    // As kubectl does: of an empty list there is no head yet.
    if (widths === undefined && listing.items.length > 0) {
      const head = listing.head(layout)
      widths = columnWidths([head, ...rowsOf(listing.items, layout)])
      if (isTable && !options.noHeaders) printRows([head], widths, io)
    }
    await printChanges(changes, listing, widths ?? [], options, io)
    await wait(systemClock, watchEveryMs, io.gone)
  }
}

/** Endpoints of several Services may have one name. */
const keyOf = ({ name, document }: Item): string => {
  const { route }: { readonly route?: unknown } = document()
  return JSON.stringify([name, route])
}

const textOf = ({ document }: Item): string => JSON.stringify(document())

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
  options: Output,
  io: Io,
): Promise<void> => {
  const { output } = options
  if (output === 'json' || output === 'yaml')
    for (const [type, { document }] of changes) {
      const event = { type, object: document() }
      io.out(output === 'json' ? `${jsonText(event)}\n` : `---\n${await yamlText(event)}`)
    }
  // As kubectl does: what has gone is printed once more, as it was.
  else {
    const items = changes.map(([, item]) => item)
    if (output === 'name') io.out(namesOf(one, items))
    else printRows(rowsOf(items, columnChoice(options)), widths, io)
  }
}
