import type { Socket } from 'node:net'

/**
 * Bounds the open connections of small HTTP servers. One too many replaces the oldest
 * connection of the client that has most: if the new one were refused, a client with a few
 * slow connections would keep the kubelet's probe out, and the kubelet would kill Usher.
 */
export class ConnectionBound {
  readonly #most: number
  /** With the client's address, oldest first. */
  readonly #open = new Map<Socket, string>()

  constructor(most: number) {
    this.#most = most
  }

  /** How many are open. */
  get open(): number {
    return this.#open.size
  }

  admit(socket: Socket): void {
    if (this.#open.size >= this.#most) this.#evict()
    this.#open.set(socket, socket.remoteAddress ?? '')
    socket.once('close', () => this.#open.delete(socket))
  }

  #evict(): void {
    const counts = new Map<string, number>()
    for (const address of this.#open.values())
      counts.set(address, (counts.get(address) ?? 0) + 1)
    const most = Math.max(...counts.values())
    for (const [socket, address] of this.#open)
      if (counts.get(address) === most) {
        // It is open for a moment more; its place is free now.
        this.#open.delete(socket)
        socket.destroy()
        return
      }
  }
}
