import type { Backend } from './backend.ts'
import type { Choice } from './front.ts'
import { type ListenerEndpoints, restMs } from './listener-endpoints.ts'

/*
 * An endpoint that accepts and ends before its first byte has not served: most often it is
 * another proxy that accepts before it knows whether there is a server. Nor has one that has no
 * answer in time: it hangs, and its kernel accepts for it. As nothing has come from it, and
 * nothing was sent to it that can't be sent again, the client need not hear of it: the next
 * endpoint is dialled, as if this one had refused.
 */

/** Later than this after it was connected to, such an end is the endpoint's idle limit. */
const earlyMs = 5000

interface Attempt {
  readonly backend: Backend
  result: string
}

/** As `Attempt.result` of the contract. */
type Unserved = 'closed early' | 'no answer'

/** What is known of a connection whose endpoint has not served. */
interface UnservedConnection<B extends Backend> {
  readonly service: ListenerEndpoints<B>
  readonly backend: B
  readonly choice: Choice<B>
  readonly attempts: readonly Attempt[]
  /** Milliseconds since its client was accepted. */
  readonly age: number
  /** Whether all that the client has said, an end included, can be said again. */
  readonly repeatable: boolean
}

/**
 * An endpoint has ended of which nothing has come, `ms` after it was connected to. True: that is
 * noted as an early close, and another endpoint is to be dialled: one that has not failed so, or
 * any when the client may wait for it. False: the end is passed on; where it was an early close all
 * the same, all endpoints have failed, and the listener's observer hears of it.
 */
export const takeEarlyClose = <B extends Backend>(
  ended: UnservedConnection<B>,
  ms: number,
): boolean => {
  const { retry } = ended.service
  if (!retry?.earlyClose || !ended.repeatable || ms > earlyMs) return false
  const mayWait = ended.age < ended.service.holdMs
  if (!mayWait && !hasOther(ended)) {
    ended.service.allFailed()
    return false
  }
  ended.service.failed(ended.backend, restMs.unserved, 'closed early')
  leave(ended, 'closed early')
  return true
}

/**
 * The time for an answer is over: that is noted as the endpoint's failure. True: another endpoint
 * is to be dialled. False: the answer is waited for, as there is no other endpoint, this one was
 * left before and the client may wait no longer, or what was said can't be said again.
 */
export const takeNoAnswer = <B extends Backend>(
  unanswered: UnservedConnection<B>,
): boolean => {
  const { service, backend, attempts, age, repeatable } = unanswered
  service.failed(backend, restMs.unserved, 'no answer')
  const isLast = !hasOther(unanswered)
  if (isLast) service.allFailed()
  const isBack = unservedKeys(attempts).has(backend.key) && age >= service.holdMs
  if (!repeatable || isBack || isLast) return false
  leave(unanswered, 'no answer')
  return true
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
  result: Unserved,
): void => {
  const last = attempts.findLast(one => one.result === 'connected')
  if (last !== undefined) last.result = result
  backend.active -= 1
}

const hasNotServed = ({ result }: Attempt): boolean =>
  result === 'closed early' || result === 'no answer'

/** Keys of the endpoints of a connection that have closed early, or did not answer. */
export const unservedKeys = (attempts: readonly Attempt[]): ReadonlySet<string> => {
  if (attempts.length === 0) return noKeys
  return new Set(attempts.filter(hasNotServed).map(({ backend }) => backend.key))
}

/** How often endpoints of a connection have not served. */
export const countUnserved = (attempts: readonly Attempt[]): number =>
  attempts.reduce((sum, attempt) => sum + (hasNotServed(attempt) ? 1 : 0), 0)

export const noKeys: ReadonlySet<string> = new Set()
