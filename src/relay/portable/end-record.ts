import type { Socket } from 'node:net'
import { joinHostPort, unmapped } from '../../util/ip.ts'
import type { Cause } from '../cause.ts'

/** Who a connection's client is, and how it ended: for its record. */
export class EndRecord {
  cause: Cause = '--'
  detail = ''
  #address = ''
  #port = 0
  readonly #client: Socket

  constructor(client: Socket) {
    this.#client = client
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
    this.#address ||= unmapped(this.#client.remoteAddress ?? '')
    this.#port ||= this.#client.remotePort ?? 0
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
