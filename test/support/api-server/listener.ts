import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

/** In 10 ms each: how long a port that was given up may be somebody else's. */
const tries = 500

/** A listening socket that can be closed and opened again on the same port. */
export class Listener {
  readonly #take: (socket: Socket) => void
  readonly #host: string
  #server: Server | undefined
  #port = 0

  constructor(host: string, take: (socket: Socket) => void) {
    this.#host = host
    this.#take = take
  }

  /** Port the system chose at the first opening. */
  get port(): number {
    return this.#port
  }

  async open(): Promise<void> {
    if (this.#server !== undefined) return
    for (let left = tries; ; left -= 1) {
      const server = createServer({ noDelay: true }, this.#take)
      try {
        server.listen(this.#port, this.#host)
        await once(server, 'listening')
        this.#port = (server.address() as AddressInfo).port
        this.#server = server
        return
      } catch (error) {
        // An outgoing connection of anybody may have got this port meanwhile.
        if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE' || left === 0)
          throw error
        await sleep(10)
      }
    }
  }

  /** From now on connections are refused; those there are stay. */
  close(): void {
    this.#server?.close()
    this.#server = undefined
  }
}
