import type { Backend } from './backend.ts'
import type { Attempt } from './connection-record.ts'
import { untold } from './early-close.ts'
import type { EndpointPlaces } from './shared-places.ts'

/** Who is told how an attempt has ended. */
export interface AttemptOwner<Own> {
  won(attempt: Own): void
  lost(attempt: Own, code: string): void
}

/** One dial attempt, for the record too. */
export class DialAttempt<B extends Backend, Socket, Connection> {
  readonly connection: Connection
  /** Undefined when it is settled: what its socket says then is not for the dial. */
  dial: AttemptOwner<DialAttempt<B, Socket, Connection>> | undefined
  readonly backend: B
  readonly startedAt: number
  socket: Socket | undefined = undefined
  /** Where it has taken a place. */
  readonly places: EndpointPlaces | undefined
  /** As `Attempt.result` of the contract; `pending` while it is under way. */
  result = 'pending'
  /** Milliseconds from its start to its result. */
  ms = 0
  /** Of one that was not served: how many bytes its client had said by then; see early-close.ts. */
  unservedAfter = untold

  constructor(
    connection: Connection,
    dial: AttemptOwner<DialAttempt<B, Socket, Connection>>,
    backend: B,
    now: number,
  ) {
    this.connection = connection
    this.dial = dial
    this.backend = backend
    this.startedAt = now
    this.places = backend.places
  }
}

/** For the record of a connection: plain data. */
export const attemptRecords = (
  attempts: readonly Pick<
    DialAttempt<Backend, unknown, unknown>,
    'backend' | 'result' | 'ms'
  >[],
): readonly Attempt[] =>
  attempts.map(({ backend, result, ms }) => ({ endpoint: backend.key, result, ms }))
