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
export interface EndedEndpoint<B extends Backend> {
  readonly service: ListenerEndpoints<B>
  readonly choice: Choice<B>
  readonly attempts: readonly Attempt[]
  /** Milliseconds since it was connected to. */
  readonly ms: number
  /** What has come from it. */
  readonly bytesFrom: number
  /** Whether all that the client has said, an end included, can be said again. */
  readonly repeatable: boolean
}

/** Whether another endpoint is to be dialled in its place. */
export const isEarlyClose = <B extends Backend>(ended: EndedEndpoint<B>): boolean => {
  const { service, choice, attempts, ms, bytesFrom, repeatable } = ended
  if (!service.retry?.earlyClose || !repeatable || bytesFrom > 0 || ms > earlyMs) {
    return false
  }
  const closed = new Set(closedEarly(attempts))
  const last = connectedOf(attempts)
  if (last !== undefined) closed.add(last.backend.key)
  return service.hasOther(choice, closed)
}

/** Notes that the endpoint of a connection has closed early, for its record and for others. */
export const noteEarlyClose = <B extends Backend>(
  service: ListenerEndpoints<B>,
  backend: B,
  attempts: readonly Attempt[],
): void => {
  const last = connectedOf(attempts)
  if (last !== undefined) last.result = 'closed early'
  backend.active -= 1
  service.failed(backend, restMs.closedEarly)
}

/** Keys of the endpoints of a connection that have closed early. */
export const closedEarly = (attempts: readonly Attempt[]): ReadonlySet<string> => {
  if (attempts.length === 0) return noKeys
  const closed = attempts.filter(({ result }) => result === 'closed early')
  return new Set(closed.map(({ backend }) => backend.key))
}

const connectedOf = (attempts: readonly Attempt[]): Attempt | undefined =>
  attempts.findLast(({ result }) => result === 'connected')

const noKeys: ReadonlySet<string> = new Set()
