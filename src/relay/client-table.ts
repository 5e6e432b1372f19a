import type { ConnectionLimits } from '../model/traffic.ts'
import { dueAfter } from './arrival-rate.ts'

/** An address as the key of a map: for IPv4 the number that it is. */
export type ClientKey = number | string

/** `words`: see `addressWords`. */
export const clientKey = (words: ArrayLike<number>): ClientKey =>
  words.length === 1 ? (words[0] ?? 0) : Array.from(words).join(':')

interface Client {
  open: number
  /** See `dueAfter`. */
  due: number
}

/** Of clients without connections. */
const usualMost = 65_536

/** Of clients that come: so often one that is of no more use is forgotten. */
const mostForgotten = 2

/**
 * What is known of a listener's clients, address by address: their open connections, and whether they
 * come too often. Pure: told the time, in milliseconds. Who has a connection is never forgotten; who
 * has none is for as long as it counts, which is a second, and of too many the one first that has left first.
 */
export class ClientTable {
  readonly #most: number
  readonly #connected = new Map<ClientKey, Client>()
  readonly #gone = new Map<ClientKey, Client>()

  constructor(most = usualMost) {
    this.#most = most
  }

  /** How many are known. */
  get size(): number {
    return this.#connected.size + this.#gone.size
  }

  /** The limit that one connection more would break. */
  over(
    key: ClientKey,
    { clientConnections, clientRate }: ConnectionLimits,
    now: number,
  ): 'max-client-connections' | 'max-client-rate' | undefined {
    const client = this.#connected.get(key) ?? this.#gone.get(key)
    if (client === undefined) return undefined
    if (clientConnections !== undefined && client.open >= clientConnections)
      return 'max-client-connections'
    const isTooOften =
      clientRate !== undefined && dueAfter(client.due, now, clientRate) === undefined
    return isTooOften ? 'max-client-rate' : undefined
  }

  /** It has one connection more. */
  begun(key: ClientKey, { clientRate }: ConnectionLimits, now: number): void {
    const known = this.#connected.get(key)
    const client = known ?? this.#gone.get(key) ?? { open: 0, due: 0 }
    client.open += 1
    if (clientRate !== undefined)
      client.due = dueAfter(client.due, now, clientRate) ?? client.due
    if (known !== undefined) return
    this.#gone.delete(key)
    this.#connected.set(key, client)
  }

  /** And one less. */
  ended(key: ClientKey, now: number): void {
    const client = this.#connected.get(key)
    if (client === undefined) return
    client.open -= 1
    if (client.open > 0) return
    this.#connected.delete(key)
    if (client.due > now) this.#gone.set(key, client)
    this.#forget(now)
  }

  #forget(now: number): void {
    let left = mostForgotten
    for (const [key, { due }] of this.#gone) {
      if (left === 0 || (due > now && this.#gone.size <= this.#most)) return
      left -= 1
      this.#gone.delete(key)
    }
  }
}
