import * as v from 'valibot'
import type { RetryOptions } from '../../model/traffic.ts'
import { parseBytes } from '../../util/bytes.ts'
import { peek } from '../../util/printable.ts'
import { isNot, countOf, durationText, msOf } from '../../util/schema.ts'
import { described, type Given } from './option-kinds.ts'

const mostReplay = 64 * 1024

/** Bytes, `1k` for 1024; undefined where there are none, or too many. */
const readReplay = (given: string | number): number | undefined => {
  const size = parseBytes(String(given).replace(/k$/, 'KiB'))
  return size !== undefined && size <= mostReplay ? size : undefined
}

const replayForm = 'a number of bytes from 0 to 64KiB, like 1k or 4KiB'

/** What is done for clients of an endpoint that does not serve. */
export const retryOptions = {
  retryEarlyClose: described(
    v.boolean(isNot('true or false')),
    'TCP only; on by default. A connection that an endpoint accepts and ends before it has said anything goes to the next endpoint, as if it had been refused.',
    false,
  ),
  replay: described(
    v.pipe(
      v.union([v.string(), v.number()], isNot(replayForm)),
      v.check(given => readReplay(given) !== undefined, isNot(replayForm)),
      v.metadata({ pattern: String.raw`^\d+(k|Ki|KiB|B)?$` }),
    ),
    'TCP only; 0 by default, at most 64KiB. A connection whose client has said no more than so many bytes is retried all the same, and the next endpoint is told them again: they may be heard twice. Give `4k` where clients begin with TLS: a ClientHello with post-quantum keys has 1.5 KiB and more.',
    '1k',
  ),
  answerWithin: described(
    // Shorter is within what a network loses; longer than any client waits.
    durationText('100ms', '60s', '2s'),
    'TCP only; off by default. How long an endpoint may take for its first byte after the client has spoken. One that takes longer has failed, as if it had closed early; where `replay` covers what the client has said, the next endpoint is told it.',
  ),
  hold: described(
    durationText('0s', '24h', '30s'),
    'TCP only; 0s by default. How long a client waits for an endpoint to come back, counted from its connection, when none could be connected to. Endpoints are tried again every second or sooner.',
  ),
  mostHeld: described(
    countOf('clients', 65_536, 256),
    'How many clients wait at most; 256 by default. The next one is reset.',
  ),
}

/** Of options without faults. `earlyClose`: what holds where retryEarlyClose is not given. */
export const decodeRetry = (
  raw: Given<typeof retryOptions> & { readonly check?: unknown },
  earlyClose: boolean,
): RetryOptions => ({
  earlyClose: raw.retryEarlyClose ?? earlyClose,
  replay: readReplay(raw.replay ?? 0) ?? 0,
  ...(raw.answerWithin !== undefined && { answerMs: msOf(raw.answerWithin) }),
  ...(raw.hold !== undefined && { holdMs: msOf(raw.hold) }),
  ...(raw.mostHeld !== undefined && { mostHeld: raw.mostHeld }),
  ...(raw.check !== undefined && { isChecked: true }),
})

/** Whether `replay` is asked for where nothing is retried. Of any object. */
export const replaysNothing = (raw: object, earlyClose: boolean): boolean => {
  const replay = peek(raw, 'replay')
  const isReplayed =
    (typeof replay === 'string' || typeof replay === 'number') &&
    (readReplay(replay) ?? 0) > 0
  const retries =
    (peek(raw, 'retryEarlyClose') ?? earlyClose) !== false ||
    Object.hasOwn(raw, 'answerWithin')
  return isReplayed && !retries
}
