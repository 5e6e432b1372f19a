import type { OptionsOf } from '../config/options.ts'
import type { AnswerOf } from '../observe/control-protocol.ts'
import { aligned, type Cell, type Cells, columnWidths } from './columns.ts'
import { jsonText } from './document-text.ts'
import { apiVersion } from './json-documents.ts'
import type { Io } from './io.ts'
import { bytesForPeople, forPeople } from './words.ts'

type Ended = AnswerOf<'ended'>['connections'][number]
type Open = AnswerOf<'connections'>['connections'][number]

/** What `usher tap` prints, as it comes. */
export interface Printer {
  readonly ended: (one: Ended) => void
  readonly open: (one: Open) => void
  /** So many more there were. */
  readonly leftOut: (more: number) => void
  /** There were more, and nobody knows how many. */
  readonly gap: () => void
}

export const printerOf = (
  { output }: Pick<OptionsOf<'tap'>, 'output'>,
  io: Io,
): Printer => (output === 'json' ? jsonPrinter(io) : textPrinter(io))

/** An object a line. */
const jsonPrinter = ({ out }: Io): Printer => {
  const print = (kind: string, fields: object): void =>
    out(`${jsonText({ apiVersion, kind, ...fields })}\n`)
  return {
    ended: one => print('EndedConnection', one),
    open: ({ id, ...rest }) => print('OpenConnection', { name: id, ...rest }),
    leftOut: leftOut => leftOut > 0 && print('LeftOut', { leftOut }),
    gap: () => print('Gap', { message: gapText }),
  }
}

const gapText =
  'Usher or a worker of it has begun anew, or was not asked for 10 s (3 s while many ask): what ended meanwhile is not known'

/** As wide as what mostly is in them: the names stand there before it is known. */
const head: Cells = [
  'TIME'.padEnd('12:34:56.789Z'.length),
  'SERVICE'.padEnd('default/web:http'.length),
  'CLIENT'.padEnd('10.244.1.23:54321'.length),
  'ENDPOINT'.padEnd('10.244.1.23:8080'.length),
  'LASTED',
  'TO-BACKEND',
  'TO-CLIENT',
  'END',
]

/** Columns grow with what is in them: what was printed stays as it is. */
const textPrinter = ({ out, err, colour }: Io): Printer => {
  let widths = columnWidths([head])
  out(`${aligned(head, widths, '', colour)}\n`)
  const print = (row: Cells): void => {
    widths = columnWidths([widths.map(width => ' '.repeat(width)), row])
    out(`${aligned(row, widths, '', colour)}\n`)
  }
  return {
    ended: one => print(endedRow(one)),
    open: one => print(openRow(one)),
    leftOut: more => more > 0 && err(`... ${more} more left out\n`),
    gap: () => err(`usher tap: ${gapText}\n`),
  }
}

const endedRow = (one: Ended): Cells => [
  // UTC, as in the log.
  one.endedAt.slice(11),
  one.route,
  one.client,
  one.endpoint || '-',
  duration(one.totalMs),
  bytesForPeople(one.bytesToBackend),
  bytesForPeople(one.bytesToClient),
  endCell(one),
]

/** `reset by the endpoint (SD: ECONNRESET), after 2 refused`. */
const endCell = (one: Ended): Cell => {
  const { cause, causeText, detail } = one
  if (cause === '--') return { text: `${causeText}${retriesOf(one)}` }
  const why = detail === '' ? cause : `${cause}: ${detail}`
  return { text: `${causeText} (${why})${retriesOf(one)}`, style: 'red' }
}

/** What its attempts at other endpoints came to. */
const retriesOf = ({ attempts }: Ended): string => {
  const results = new Map<string, number>()
  for (const { result } of attempts)
    if (result !== 'connected') results.set(result, (results.get(result) ?? 0) + 1)
  const texts = [...results].map(([result, times]) => `${times} ${result}`)
  return texts.length === 0 ? '' : `, after ${texts.join(', ')}`
}

const openRow = (one: Open): Cells => [
  '-',
  one.route,
  one.client,
  one.endpoint || '-',
  duration(one.ageMs),
  bytesForPeople(one.bytesToBackend),
  bytesForPeople(one.bytesToClient),
  { text: one.state, style: 'dim' },
]

/** `12ms`, `3.4s`, `5m12s`. */
const duration = (ms: number): string =>
  ms < 1000
    ? `${Math.round(ms)}ms`
    : ms < 60_000
      ? `${(ms / 1000).toFixed(1)}s`
      : forPeople(ms)
