import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'

/** One connection of a client: the TCP socket, and TLS on it once it is set up. */
export class Connection {
  readonly #raw: Socket
  #tls: TLSSocket | undefined
  #frozen = false

  constructor(raw: Socket) {
    this.#raw = raw
  }

  secured(tls: TLSSocket): void {
    this.#tls = tls
    if (this.#frozen) tls.pause()
  }

  /** Nothing is written any more, and nothing is read. */
  get frozen(): boolean {
    return this.#frozen
  }

  /**
   * Becomes what is left when the other machine lost its power: open, silent, deaf. The
   * kernel still acknowledges what arrives.
   */
  freeze(): void {
    this.#frozen = true
    this.#tls?.pause()
  }

  /**
   * Ends it in the middle of whatever was being said. One that is already shutting down
   * gets no reset: libuv refuses (EINVAL), and Node then never closes the socket.
   */
  cut(how: 'fin' | 'rst'): void {
    const resets = how === 'rst' && this.#tls?.writableEnded !== true
    if (resets) this.#raw.resetAndDestroy()
    else if (this.#tls === undefined) this.#raw.destroy()
    else this.#tls.destroySoon()
  }
}

/** All connections there are. */
export class Connections {
  readonly #all = new Map<string, Connection>()

  /** A client that has just connected. */
  add(raw: Socket): Connection {
    const id = idOf(raw)
    const connection = new Connection(raw)
    this.#all.set(id, connection)
    raw.on('error', () => undefined)
    raw.once('close', () => this.#all.delete(id))
    return connection
  }

  /** The connection under a TLS socket. */
  of(tls: Socket): Connection {
    const connection = this.#all.get(idOf(tls))
    if (connection === undefined) throw new Error(`unknown connection ${idOf(tls)}`)
    return connection
  }

  has(tls: Socket): boolean {
    return this.#all.has(idOf(tls))
  }

  get size(): number {
    return this.#all.size
  }

  freezeAll(): void {
    for (const connection of this.#all.values()) connection.freeze()
  }

  cutAll(how: 'fin' | 'rst'): void {
    for (const connection of this.#all.values()) connection.cut(how)
  }
}

const idOf = ({ remoteAddress, remotePort }: Socket): string =>
  `${remoteAddress} ${remotePort}`
