import { noKeys } from '../balance/pool.ts'
import type { Choice, Backend } from './front.ts'
import type { ListenerEndpoints } from './listener-endpoints.ts'
import { isCancelRequest } from './postgres.ts'

/*
 * An endpoint that accepts and ends before its first byte has not served: most often it is
 * another proxy that accepts before it knows whether there is a server. Nor has one that has no
 * answer in time: it hangs, and its kernel accepts for it. As nothing has come from it, and
 * nothing was sent to it that can't be sent again, the client need not notice: the next
 * endpoint is dialled, once each, as if this one had refused.
 *
 * But servers end so, too, because of what a client sent, or did not send for too long. So one
 * connection alone is the endpoint's failure only when it ends at once on a client that was never
 * mentioned to it. Any other counts when another endpoint has served the very same client, which
 * has sent no more, and then as one of several that it takes: see doubts.ts.
 */

/** Later than this after it was connected to, such an end is the endpoint's idle limit. */
const earlyMs = 5000

/** Sooner than this it is no time limit for a silent client. */
const atOnceMs = 100

interface Attempt {
  readonly backend: Backend
  result: string
  unservedAfter: number
}

/** What is known of a connection whose endpoint has not served. */
interface UnservedConnection<B extends Backend> {
  readonly service: ListenerEndpoints<B>
  readonly backend: B
  readonly choice: Choice<B>
  readonly attempts: readonly Attempt[]
  /** Whether all that the client has sent, an end included, can be replayed. */
  readonly isReplayable: boolean
  /** Bytes that the client has sent. */
  readonly clientBytes: number
  /** These, where they are buffered. */
  readonly replayBytes: Buffer | undefined
  /** The client's address; asking for it may be a system call. */
  readonly address: () => string
}

/**
 * An endpoint has ended of which nothing has come, `ms` after it was connected to. True: that is
 * noted as an early close, and another endpoint is to be dialled, which has not failed so. False:
 * the end is passed on; where it was an early close all the same, all endpoints have failed, and the
 * listener's observer is notified.
 */
export const takeEarlyClose = <B extends Backend>(
  ended: UnservedConnection<B>,
  ms: number,
): boolean => {
  const { service, backend, clientBytes, isReplayable, replayBytes } = ended
  const mayBeEarly = service.retry?.earlyClose === true && ms <= earlyMs
  if (!mayBeEarly || isCancelRequest(replayBytes)) return false
  if (!isReplayable) return notReplayed(ended)
  // In a pause the client waits for what comes after it.
  if (!hasOther(ended) && !service.paused) {
    service.allFailed()
    return false
  }
  // A header names the client: it may be that it is not let in.
  const isAtOnce =
    ms <= atOnceMs && clientBytes === 0 && service.proxyProtocol === undefined
  service.noteFailure(backend, 'closed early')
  if (isAtOnce) service.unserved(backend, undefined)
  leave(ended, 'closed early', isAtOnce ? noVerdict : clientBytes)
  return true
}

/**
 * The time for an answer is over. True: another endpoint is to be dialled. False: the answer is
 * waited for, as there is no other endpoint, or what was sent can't be replayed: then it counts
 * for the endpoint if others have had answers meanwhile.
 */
export const takeNoAnswer = <B extends Backend>(
  unanswered: UnservedConnection<B>,
): boolean => {
  const { service, backend, clientBytes, isReplayable, replayBytes, address } = unanswered
  if (isCancelRequest(replayBytes)) return false
  service.noteFailure(backend, 'no answer')
  const isLast = !hasOther(unanswered)
  if (isLast) service.allFailed()
  else if (!isReplayable && service.othersAnswer(backend))
    service.unserved(backend, address())
  if (isLast) return false
  if (!isReplayable) return notReplayed(unanswered)
  leave(unanswered, 'no answer', clientBytes)
  return true
}

/** The first has come from an endpoint for a client that has sent so many bytes: others have not served it. */
export const noteUnserved = <B extends Backend>(
  service: ListenerEndpoints<B>,
  attempts: readonly { readonly backend: B; readonly unservedAfter: number }[],
  clientBytes: number,
  address: () => string,
): void => {
  for (const { backend, unservedAfter } of attempts) {
    if (unservedAfter === clientBytes) service.unserved(backend, address())
  }
}

/** Whether there is an endpoint that this connection has not left. */
const hasOther = <B extends Backend>({
  service,
  backend,
  choice,
  attempts,
}: UnservedConnection<B>): boolean =>
  service.hasOther(choice, new Set(unservedKeys(attempts)).add(backend.key))

const leave = <B extends Backend>(
  { backend, attempts }: UnservedConnection<B>,
  result: 'closed early' | 'no answer',
  unservedAfter: number,
): void => {
  note(attempts, result, unservedAfter)
  backend.active -= 1
}

/** Where `replay` is too small for what the client has sent, its record says so. */
const notReplayed = <B extends Backend>({
  service,
  attempts,
  clientBytes,
}: UnservedConnection<B>): false => {
  if (clientBytes > 0 && (service.retry?.replay ?? 0) > 0)
    note(attempts, 'not replayed', noVerdict)
  return false
}

const note = (
  attempts: readonly Attempt[],
  result: string,
  unservedAfter: number,
): void => {
  const last = attempts.findLast(one => one.result === 'connected')
  if (last !== undefined) Object.assign(last, { result, unservedAfter })
}

/** Of an attempt that says nothing of its endpoint. */
export const noVerdict = -1

const hasNotServed = ({ result }: Attempt): boolean =>
  result === 'closed early' || result === 'no answer'

/** Keys of the endpoints of a connection that have closed early, or did not answer. */
export const unservedKeys = (attempts: readonly Attempt[]): ReadonlySet<string> => {
  if (attempts.length === 0) return noKeys
  return new Set(attempts.filter(hasNotServed).map(({ backend }) => backend.key))
}
