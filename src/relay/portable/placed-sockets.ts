import type { Socket } from 'node:net'
import type { EndpointPlaces } from '../shared-places.ts'

/** Sockets that have taken a place at their endpoint, which is given back when they are closed. */
export class PlacedSockets {
  readonly #places = new WeakMap<Socket, EndpointPlaces>()

  /** The place was taken for it. */
  put(socket: Socket, places: EndpointPlaces): void {
    const isNew = !this.#places.has(socket)
    this.#places.set(socket, places)
    if (isNew) socket.once('close', () => this.#places.get(socket)?.free())
  }

  /** It is open already, and counts all the same. */
  take(socket: Socket, places: EndpointPlaces | undefined): void {
    const before = this.#places.get(socket)
    if (socket.destroyed || places === undefined || places.id === before?.id) return
    before?.free()
    places.take(Infinity)
    this.put(socket, places)
  }
}
