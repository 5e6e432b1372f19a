import type { Socket } from 'node:net'
import {
  type AddressPort,
  canonicalIp,
  joinHostPort,
  withoutZone,
} from '../../util/ip.ts'

/** The most recent are remembered: names may have many addresses, and these may change. */
const mostKnown = 100

/** By which addresses the API server, or the proxy on the way to it, is dialled. */
export class Dialled {
  #known: readonly AddressPort[] = []
  /** Called when another one comes. */
  changed: () => void = () => {}

  /** The same list while nothing of it changed. */
  get all(): readonly AddressPort[] {
    return this.#known
  }

  /** Ignores what is no address. */
  add(given: string, port: number): void {
    const address = canonicalIp(withoutZone(given))
    if (address === undefined) return
    const key = joinHostPort(address, port)
    if (this.#known.some(one => joinHostPort(one.address, one.port) === key)) return
    this.#known = [...this.#known, { address, port }].slice(-mostKnown)
    this.changed()
  }

  /** The peer of a request's connection, once there is one; before all that its name is resolved to. */
  watch(socket: Socket, port: number): void {
    if (!socket.connecting)
      this.add(socket.remoteAddress ?? '', socket.remotePort ?? port)
    // Of a lookup that failed there is no address, whatever its type says.
    else socket.on('lookup', (_error, address?: string) => this.add(address ?? '', port))
  }
}
