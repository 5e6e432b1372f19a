import type { Server, Socket } from 'node:net'
import { bindKey, type Bind } from '../relay.ts'
import { reset } from './reset.ts'

/** A server that listens. */
export interface Served {
  readonly server: Server
  /** Of a unix socket its file goes, too. */
  readonly close: () => void
  readonly missing?: () => string
}

interface Offer {
  readonly served: Served
  /** Clients accepted while the server belonged to no listener. */
  readonly waiting: Socket[]
}

/**
 * Listening servers that one listener has let go and another may take in the same `apply`,
 * as when a Service's port gets another name. To close and open again would reset the
 * clients in the kernel's queue and refuse those who come in between.
 */
export class Handover {
  readonly #offers = new Map<string, Offer>()
  #wanted: ReadonlySet<string> = new Set()

  /** From now to `end`, servers at the `bindKey`s of `wanted` are kept for the listeners that adopt them. */
  begin(wanted: ReadonlySet<string>): void {
    this.#wanted = wanted
  }

  /** Closes what was not taken. */
  end(): void {
    this.#wanted = new Set()
    for (const { served, waiting } of this.#offers.values()) {
      served.close()
      for (const client of waiting) reset(client)
    }
    this.#offers.clear()
  }

  /** The server has no listeners for its events any more. Closed unless it is wanted. */
  offer(bind: Bind, served: Served): void {
    const { server } = served
    const key = bindKey(bind)
    if (!this.#wanted.has(key)) {
      served.close()
      return
    }
    const waiting: Socket[] = []
    server.on('connection', client => {
      // Node throws an error without a listener; the adopter sees that the socket is closed.
      client.on('error', () => {})
      waiting.push(client)
    })
    server.on('error', () => {})
    this.#offers.set(key, { served, waiting })
  }

  /** `adopt` makes the server the adopter's own; then it is given those who waited. */
  take(bind: Bind): { readonly served: Served; readonly adopt: () => void } | undefined {
    const key = bindKey(bind)
    const offer = this.#offers.get(key)
    if (offer === undefined) return undefined
    this.#offers.delete(key)
    const { served, waiting } = offer
    const { server } = served
    server.removeAllListeners('connection').removeAllListeners('error')
    const adopt = (): void => {
      for (const client of waiting) {
        if (!client.destroyed) server.emit('connection', client)
      }
    }
    return { served, adopt }
  }
}
