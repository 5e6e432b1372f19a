import type { Backend } from './backend.ts'
import type { Choice } from './front.ts'
import { type ListenerEndpoints, restMs } from './listener-endpoints.ts'

/*
 * An endpoint that accepts and ends before its first byte has not served: most often it is
 * another proxy that accepts before it knows whether there is a server. As nothing has come from
 * it, and nothing was sent to it that can't be sent again, the client need not hear of it: the
 * next endpoint is dialled, as if this one had refused.
 */

/** Later than this after it was connected to, such an end is the endpoint's idle limit. */
const earlyMs = 5000

interface Attempt {
  readonly backend: Backend
  result: string
}

/** What is known of a connection whose endpoint has ended. */
interface EndedEndpoint<B extends Backend> {
  readonly service: ListenerEndpoints<B>
  readonly backend: B
  readonly choice: Choice<B>
  readonly attempts: readonly Attempt[]
  /** Milliseconds since it was connected to. */
  readonly ms: number
  /** Milliseconds since its client was accepted. */
  readonly age: number
  /** Whether all that the client has said, an end included, can be said again. */
  readonly repeatable: boolean
}

/**
 * An endpoint has ended of which nothing has come. True: that is noted as an early close, and
 * another endpoint is to be dialled: one that has not closed early, or any when the client may
 * wait for it. False: the end is passed on; where it was an early close all the same, all
 * endpoints have failed, and the listener's observer hears of it.
 */
export const takeEarlyClose = <B extends Backend>(ended: EndedEndpoint<B>): boolean => {
  const { service, backend, choice, attempts, ms, age, repeatable } = ended
  if (!service.retry?.earlyClose || !repeatable || ms > earlyMs) return false
  if (age >= service.holdMs) {
    const closed = new Set(closedEarly(attempts)).add(backend.key)
    if (!service.hasOther(choice, closed)) {
      service.allFailed()
      return false
    }
  }
  const last = attempts.findLast(({ result }) => result === 'connected')
  if (last !== undefined) last.result = 'closed early'
  backend.active -= 1
  service.failed(backend, restMs.closedEarly)
  return true
}

/** Keys of the endpoints of a connection that have closed early. */
export const closedEarly = (attempts: readonly Attempt[]): ReadonlySet<string> => {
  if (attempts.length === 0) return noKeys
  const closed = attempts.filter(({ result }) => result === 'closed early')
  return new Set(closed.map(({ backend }) => backend.key))
}

/** How often endpoints of a connection have closed early. */
export const closesOf = (attempts: readonly Attempt[]): number =>
  attempts.reduce((sum, { result }) => sum + (result === 'closed early' ? 1 : 0), 0)

export const noKeys: ReadonlySet<string> = new Set()
