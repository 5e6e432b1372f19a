import type { OptionsOf } from '../config/options.ts'
import type { AnswerOf } from '../observe/control-protocol.ts'
import { isAmong, rangesOf } from '../util/address-ranges.ts'
import { addressWords } from '../util/cidr.ts'
import { systemClock } from '../util/clock.ts'
import { splitHostPort, withoutZone } from '../util/ip.ts'
import { hasCode } from '../util/usher-error.ts'
import { wait } from '../util/wait.ts'
import { askCommand, orSayWhyNot } from './ask-usher.ts'
import type { Io } from './io.ts'
import { type Printer, printerOf } from './tap-output.ts'
import { visible } from './words.ts'

type Options = OptionsOf<'tap'>

/** Lines a second are of so long. */
const everyMs = 1000

/** `usher tap`: 0 at Ctrl-C, or when nobody reads any more; 1 or 3 with the reason when it can't begin. */
export const tap = (options: Options, io: Io): Promise<number> =>
  orSayWhyNot('tap', io, async () => {
    const first = await look(options)
    for (const note of first.notes) say(io, note)
    const printer = printerOf(options, io)
    if (options.open) await printOpen(options, printer)
    await follow(options, io, printer, first.next)
    return 0
  })

const say = (io: Io, what: string): void => io.err(`usher tap: ${visible(what)}\n`)

const look = (
  options: Options,
  after?: string,
  stop?: AbortSignal,
): Promise<AnswerOf<'ended'>> => {
  const request = {
    routes: options.service,
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
  const { client, service: routes, maxRate } = options
  const clients = client.length === 0 ? undefined : rangesOf(client)
  // Some clients' may be any of them.
  const request = { routes, ...(clients === undefined && { limit: maxRate }) }
  // Its notes have been said: they are those of the first look.
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
      const answer = await look(options, next, stopped)
      if (away !== '') say(io, 'there is an answer again')
      if (answer.gap) printer.gap()
      for (const one of answer.connections) printer.ended(one)
      printer.leftOut(answer.leftOut)
      ;[next, away] = [answer.next, '']
    } catch (error) {
      if (stopped.aborted) return
      if (!hasCode(error, 'NO_ANSWER', 'ORDER_REFUSED')) throw error
      if (error.message !== away) say(io, `${error.message}; it is asked again and again`)
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
