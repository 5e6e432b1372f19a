import type { OptionsOf } from '../config/options.ts'
import type { AnswerOf } from '../observe/control-protocol.ts'
import { isAmong, rangesOf } from '../util/address-ranges.ts'
import { addressWords } from '../util/cidr.ts'
import { systemClock, wait } from '../util/clock.ts'
import { splitHostPort, withoutZone } from '../util/ip.ts'
import { hasCode } from '../util/usher-error.ts'
import { askCommand, exitCodeOf } from './ask-usher.ts'
import { type Io, visible, bytesForPeople, forPeople } from './io.ts'
import { aligned, type Cell, type Cells, columnWidths } from './text-table.ts'
import { jsonText } from './document-text.ts'
import { bareName } from './listings.ts'
import { apiVersion } from './json-documents.ts'

type Options = OptionsOf<'tap'>

/** Lines a second are of so long. */
const everyMs = 1000

/** `usher tap`: 0 at Ctrl-C, or when nobody reads any more; 1 or 3 with the reason when it can't begin. */
export const tap = (options: Options, io: Io): Promise<number> =>
  exitCodeOf('tap', io, async () => {
    const first = await poll(options)
    for (const note of first.notes) printNote(io, note)
    const printer = printerOf(options, io)
    if (options.open) await printOpen(options, printer)
    await follow(options, io, printer, first.next)
    return 0
  })

const printNote = (io: Io, what: string): void => io.err(`usher tap: ${visible(what)}\n`)

const routesOf = ({ service }: Pick<Options, 'service'>): readonly string[] =>
  service.map(name => bareName(name, 'services'))

const poll = (
  options: Options,
  after?: string,
  stop?: AbortSignal,
): Promise<AnswerOf<'ended'>> => {
  const request = {
    routes: routesOf(options),
    failed: options.failed,
    ...(options.client.length > 0 && { clients: options.client }),
    perSecond: options.maxRate,
    // Each worker has as many.
    limit: options.maxRate,
    ...(after !== undefined && { after }),
  }
  return askCommand(options, 'ended', request, stop)
}

const printOpen = async (options: Options, printer: Printer): Promise<void> => {
  const { client, maxRate } = options
  const routes = routesOf(options)
  const clients = client.length === 0 ? undefined : rangesOf(client)
  // Some clients' may be any of them.
  const request = { routes, ...(clients === undefined && { limit: maxRate }) }
  // Its notes have been printed: they are those of the first poll.
  const { connections, left } = await askCommand(options, 'connections', request)
  const wanted = connections.filter(one => {
    const { host } = splitHostPort(one.client) ?? { host: '' }
    const words = clients && addressWords(withoutZone(host))
    return clients === undefined || (words !== undefined && isAmong(clients, words))
  })
  for (const one of wanted.slice(0, maxRate)) printer.open(one)
  printer.leftOut(left + Math.max(0, wanted.length - maxRate))
}

/** Until it is stopped, also while no Usher answers: it may be about to be started again. */
const follow = async (
  options: Options,
  io: Io,
  printer: Printer,
  from: string,
): Promise<void> => {
  const stopped = AbortSignal.any([interrupted(), io.gone])
  let [next, away] = [from, '']
  for (;;) {
    await wait(systemClock, everyMs, stopped)
    if (stopped.aborted) return
    try {
      const answer = await poll(options, next, stopped)
      if (away !== '') printNote(io, 'Usher answers again')
      if (answer.gap) printer.gap()
      for (const one of answer.connections) printer.ended(one)
      printer.leftOut(answer.leftOut)
      ;[next, away] = [answer.next, '']
    } catch (error) {
      if (stopped.aborted) return
      if (!hasCode(error, 'NO_ANSWER', 'ORDER_REFUSED')) throw error
      if (error.message !== away) printNote(io, `${error.message}; retrying`)
      away = error.message
    }
  }
}

/** By Ctrl-C; a second one ends the process in any case. */
const interrupted = (): AbortSignal => {
  const stop = new AbortController()
  process.once('SIGINT', () => stop.abort())
  return stop.signal
}

type Ended = AnswerOf<'ended'>['connections'][number]
type Open = AnswerOf<'connections'>['connections'][number]

/** What `usher tap` prints, as it comes. */
interface Printer {
  readonly ended: (one: Ended) => void
  readonly open: (one: Open) => void
  /** So many more there were. */
  readonly leftOut: (more: number) => void
  /** There were more, and nobody knows how many. */
  readonly gap: () => void
}

export const printerOf = (
  options: Pick<Options, 'output' | 'service'>,
  io: Io,
): Printer => {
  if (options.output === 'json') return jsonPrinter(io)
  const names = routesOf(options)
  // Without names it is not known yet whose connections they are.
  const areRoutes = names.length > 0 && names.every(name => !name.includes('/'))
  return textPrinter(io, headFor(areRoutes))
}

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
  'Usher or one of its workers has restarted, or was not queried for 10 s (3 s while there are many queries): connections that ended meanwhile were missed'

/** As wide as what mostly is in them: the names stand there before it is known. */
const headFor = (areRoutes: boolean): Cells => [
  'TIME'.padEnd('12:34:56.789Z'.length),
  (areRoutes ? 'ROUTE' : 'SERVICE').padEnd('default/web:http'.length),
  'CLIENT'.padEnd('10.244.1.23:54321'.length),
  'ENDPOINT'.padEnd('10.244.1.23:8080'.length),
  'LASTED',
  'TO-BACKEND',
  'TO-CLIENT',
  'END',
]

/** Columns grow with what is in them: what was printed stays as it is. */
const textPrinter = ({ out, err, colour }: Io, head: Cells): Printer => {
  let widths = columnWidths([head])
  out(`${aligned(head, widths, '', colour)}\n`)
  const print = (cells: Cells): void => {
    widths = columnWidths([widths.map(width => ' '.repeat(width)), cells])
    out(`${aligned(cells, widths, '', colour)}\n`)
  }
  return {
    // UTC, as in the log.
    ended: one => print(row(one.endedAt.slice(11), one, one.totalMs, endCell(one))),
    open: one => print(row('-', one, one.ageMs, { text: one.state, style: 'dim' })),
    leftOut: more => more > 0 && err(`... ${more} more left out\n`),
    gap: () => err(`usher tap: ${gapText}\n`),
  }
}

const row = (time: string, one: Ended | Open, lastedMs: number, end: Cell): Cells => [
  time,
  one.route,
  one.client,
  one.endpoint || '-',
  duration(lastedMs),
  bytesForPeople(one.bytesToBackend),
  bytesForPeople(one.bytesToClient),
  end,
]

/** `reset by the endpoint (SD: ECONNRESET), after 2 refused`. */
const endCell = (one: Ended): Cell => {
  const { cause, causeText, detail } = one
  if (cause === '--') return { text: `${causeText}${retriesOf(one)}` }
  const reason = detail === '' ? cause : `${cause}: ${detail}`
  return { text: `${causeText} (${reason})${retriesOf(one)}`, style: 'red' }
}

/** What its attempts at other endpoints came to. */
const retriesOf = ({ attempts }: Ended): string => {
  const results = new Map<string, number>()
  for (const { result } of attempts)
    if (result !== 'connected') results.set(result, (results.get(result) ?? 0) + 1)
  const texts = [...results].map(([result, times]) => `${times} ${result}`)
  return texts.length === 0 ? '' : `, after ${texts.join(', ')}`
}

/** `12ms`, `3.4s`, `5m12s`. */
const duration = (ms: number): string =>
  ms < 1000
    ? `${Math.round(ms)}ms`
    : ms < 60_000
      ? `${(ms / 1000).toFixed(1)}s`
      : forPeople(ms)
