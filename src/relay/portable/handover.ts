import type { Server } from 'node:net'
import { bindKey } from '../counters.ts'
import type { Bind } from '../relay.ts'

/**
 * Listening servers that one listener has let go and another may take in the same turn of
 * the event loop, as when a Service's port gets another name. To close and open again
 * would reset the clients in the kernel's queue and refuse those who come in between.
 */
export class Handover {
  readonly #offered = new Map<string, Server>()

  /** Closes the server at the end of this turn unless somebody takes it. */
  offer(bind: Bind, server: Server): void {
    const key = bindKey(bind)
    this.#offered.set(key, server)
    queueMicrotask(() => {
      if (this.#offered.get(key) !== server) return
      this.#offered.delete(key)
      server.close()
    })
  }

  take(bind: Bind): Server | undefined {
    const key = bindKey(bind)
    const server = this.#offered.get(key)
    this.#offered.delete(key)
    return server
  }
}
