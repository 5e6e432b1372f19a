import * as v from 'valibot'
import { checkShape } from '../../health/check-option.ts'
import type { RetryOptions } from '../../model/service.ts'
import { parseBytes } from '../../util/bytes.ts'
import { parseDuration } from '../../util/duration.ts'
import { peek } from '../../util/json.ts'
import { isNot } from '../../util/schema.ts'

// The one definition of how clients and endpoints are treated: by the options of a route, and
// by the annotations of a Service. Only checks, as in decode/fields.ts.

/** A text that has to hold. `pattern`: as much of that as an editor knows. */
export const checkedText = (
  holds: (given: string) => boolean,
  right: string,
  pattern: string,
  example: string,
) =>
  v.pipe(
    v.string(isNot(right)),
    v.check(holds, isNot(right)),
    v.metadata({ pattern }),
    v.examples([example]),
  )

const mostReplay = 64 * 1024

/** Bytes, `1k` for 1024; undefined where there are none, or too many. */
const readReplay = (given: string | number): number | undefined => {
  const size = parseBytes(String(given).replace(/k$/, 'KiB'))
  return size !== undefined && size <= mostReplay ? size : undefined
}

/** A day: longer than any failover, and short enough for a number that is a mistake. */
const longestHoldMs = 86_400_000

/** Shorter is within what a network loses; longer than any client waits. */
const answerBounds = [100, 60_000] as const

/** Milliseconds; undefined where the text is none, or out of bounds. */
const readMs = (text: string, least: number, most: number): number | undefined => {
  const ms = parseDuration(text)
  return ms !== undefined && ms >= least && ms <= most ? Math.round(ms) : undefined
}

const readHold = (text: string): number | undefined => readMs(text, 0, longestHoldMs)
const readAnswer = (text: string): number | undefined => readMs(text, ...answerBounds)

const durationPattern = String.raw`^([0-9.]+(ns|us|µs|ms|s|m|h))+$`

const mostHeldForm = 'a number of clients from 1 to 65536, like 256'

const replayForm = 'a number of bytes from 0 to 64KiB, like 1k or 4KiB'

/** As a file of routes would have them. */
export const endpointOptions = {
  retryEarlyClose: v.pipe(
    v.boolean(isNot('true or false')),
    v.description(
      'TCP only; on by default. A connection that an endpoint accepts and ends before it has said anything goes to the next endpoint, as if it had been refused.',
    ),
    v.examples([false]),
  ),
  replay: v.pipe(
    v.union([v.string(), v.number()], isNot(replayForm)),
    v.check(given => readReplay(given) !== undefined, isNot(replayForm)),
    v.metadata({ pattern: String.raw`^\d+(k|Ki|KiB|B)?$` }),
    v.description(
      'TCP only; 0 by default, at most 64KiB. A connection whose client has said no more than so many bytes is retried all the same, and the next endpoint is told them again: they may be heard twice.',
    ),
    v.examples(['1k']),
  ),
  answerWithin: v.pipe(
    checkedText(
      given => readAnswer(given) !== undefined,
      'a duration from 100ms to 60s, like 2s',
      durationPattern,
      '2s',
    ),
    v.description(
      'TCP only; off by default. How long an endpoint may take for its first byte after the client has spoken. One that takes longer has failed, as if it had closed early; where `replay` covers what the client has said, the next endpoint is told it.',
    ),
  ),
  hold: v.pipe(
    checkedText(
      given => readHold(given) !== undefined,
      'a duration from 0s to 24h, like 30s',
      durationPattern,
      '30s',
    ),
    v.description(
      'TCP only; 0s by default. How long a client waits for an endpoint to come back, counted from its connection, when none could be connected to. Endpoints are tried again every second or sooner.',
    ),
  ),
  mostHeld: v.pipe(
    v.number(isNot(mostHeldForm)),
    v.integer(isNot(mostHeldForm)),
    v.minValue(1, isNot(mostHeldForm)),
    v.maxValue(65_536, isNot(mostHeldForm)),
    v.description(
      'How many clients wait at most; 256 by default. The next one is reset.',
    ),
    v.examples([256]),
  ),
  check: v.pipe(
    checkShape,
    v.description(
      'How each endpoint is checked, every 2 s: `tcp`, `http://:8008/primary`, `postgres`, `redis` or `mysql`, or an object. One that is down gets no new connections; see below.',
    ),
    v.examples(['http://:8008/primary']),
  ),
  onDown: v.pipe(
    v.picklist(['keep', 'reset'], isNot('keep or reset')),
    v.description(
      'What becomes of the connections to an endpoint that goes down: they are kept, or reset. With a check for a role `reset` is what you want: the former primary answers, and takes no writes.',
    ),
    v.examples(['reset']),
  ),
}

type Raw = {
  readonly [Name in keyof typeof endpointOptions]?:
    v.InferOutput<(typeof endpointOptions)[Name]> | undefined
}

/** Of options without faults. `earlyClose`: what holds where retryEarlyClose is not given. */
export const decodeRetry = (raw: Raw, earlyClose: boolean): RetryOptions => ({
  earlyClose: raw.retryEarlyClose ?? earlyClose,
  replay: readReplay(raw.replay ?? 0) ?? 0,
  ...(raw.answerWithin !== undefined && { answerMs: readAnswer(raw.answerWithin) }),
  ...(raw.hold !== undefined && { holdMs: readHold(raw.hold) }),
  ...(raw.mostHeld !== undefined && { mostHeld: raw.mostHeld }),
})

/** An option that has no effect. */
interface Idle {
  readonly name: keyof typeof endpointOptions
  readonly message: string
}

/**
 * Options that do nothing beside the others. Of any object: what can't be read has its fault
 * already. `nameOf`: what an option is called where it was written.
 */
export const idleOptions = (
  raw: object,
  earlyClose: boolean,
  nameOf: (option: string) => string = option => option,
): readonly Idle[] => {
  const replay = peek(raw, 'replay')
  const isReplayed =
    (typeof replay === 'string' || typeof replay === 'number') &&
    (readReplay(replay) ?? 0) > 0
  const retries =
    (peek(raw, 'retryEarlyClose') ?? earlyClose) !== false ||
    Object.hasOwn(raw, 'answerWithin')
  const idle: Idle[] = []
  if (isReplayed && !retries)
    idle.push({
      name: 'replay',
      message: `does nothing where ${nameOf('retryEarlyClose')} is off; leave it out, or switch that on`,
    })
  if (Object.hasOwn(raw, 'onDown') && !Object.hasOwn(raw, 'check'))
    idle.push({
      name: 'onDown',
      message: 'does nothing without check; give that, too',
    })
  return idle
}
