import { joinHostPort } from '../../util/ip.ts'
import type { Cause, Attempt, ConnectionRecord } from '../cause.ts'
import type { Arrival } from './arrival.ts'

/** What there is to know of a connection besides. */
interface Ended {
  readonly endpoint: string
  readonly bytesToBackend: number
  readonly bytesToClient: number
  readonly acceptedAt: number
}

/** Who a connection's client is, and how it ended: for its record. */
export class EndRecord {
  cause: Cause = '--'
  detail = ''
  #address = ''
  #port = 0
  readonly arrival: Arrival

  constructor(arrival: Arrival) {
    this.arrival = arrival
  }

  /** `ip:port`. */
  get client(): string {
    return joinHostPort(this.#address, this.#port)
  }

  /** '' before `name`. */
  get address(): string {
    return this.#address
  }

  /** Asks for the client's address, as long as it has one: a system call. */
  name(): void {
    if (this.#address !== '') return
    const { address, port } = this.arrival.source
    this.#address = address
    this.#port = port
  }

  /** `connectedAt`: or given up. */
  of(
    listener: string,
    { endpoint, bytesToBackend, bytesToClient, acceptedAt }: Ended,
    attempts: readonly Attempt[],
    connectedAt: number,
    now: number,
  ): ConnectionRecord {
    return {
      listener,
      client: this.client,
      endpoint,
      attempts,
      bytesToBackend,
      bytesToClient,
      dialMs: connectedAt - acceptedAt,
      totalMs: now - acceptedAt,
      cause: this.cause,
      detail: this.detail,
    }
  }

  /** The first cause is the cause: not what follows from it. */
  blame(cause: Cause, detail: string): void {
    if (this.cause !== '--') return
    // For every connection that would be too much.
    this.name()
    this.cause = cause
    this.detail = detail
  }
}
