import type { NodeQuestions } from '../worker/node-questions.ts'
import type { Identity } from './flow-table.ts'

/** Of one client, and of all: more than that is dropped. */
const mostDatagrams = 16
const mostClients = 1024
const mostBytes = 8 << 20

/** A datagram whose client must first be known to be on this node, or not. */
export interface WaitingDatagram extends Identity {
  readonly datagram: Uint8Array
}

/** Where datagrams go on when it is known. */
export interface WaitingRoom {
  admitted(datagrams: readonly WaitingDatagram[]): void
}

/** Datagrams of clients about whom the main thread has been asked. */
export class WaitingClients {
  readonly #questions: Pick<NodeQuestions, 'whenKnown'>
  readonly #clients = new Map<WaitingRoom, Map<string, WaitingDatagram[]>>()
  #count = 0
  #bytes = 0

  constructor(questions: Pick<NodeQuestions, 'whenKnown'>) {
    this.#questions = questions
  }

  /** Keeps a datagram, whose memory is its own; false when there is no room for it. */
  add(room: WaitingRoom, address: string, port: number, one: WaitingDatagram): boolean {
    const clients = this.#clients.get(room) ?? new Map<string, WaitingDatagram[]>()
    const key = `${address} ${port}`
    const known = clients.get(key)
    if (this.#bytes + one.datagram.length > mostBytes) return false
    if (
      known === undefined ? this.#count >= mostClients : known.length >= mostDatagrams
    ) {
      return false
    }
    this.#bytes += one.datagram.length
    if (known !== undefined) {
      known.push(one)
      return true
    }
    this.#clients.set(room, clients)
    clients.set(key, [one])
    this.#count += 1
    this.#questions.whenKnown(address, () => this.#known(room, key))
    return true
  }

  /** The room is no more, and with it those who wait. */
  clear(room: WaitingRoom): void {
    for (const key of this.#clients.get(room)?.keys() ?? []) this.#take(room, key)
  }

  #known(room: WaitingRoom, key: string): void {
    const datagrams = this.#take(room, key)
    if (datagrams !== undefined) room.admitted(datagrams)
  }

  #take(room: WaitingRoom, key: string): readonly WaitingDatagram[] | undefined {
    const clients = this.#clients.get(room)
    const datagrams = clients?.get(key)
    if (clients === undefined || datagrams === undefined) return undefined
    clients.delete(key)
    if (clients.size === 0) this.#clients.delete(room)
    this.#count -= 1
    for (const { datagram } of datagrams) this.#bytes -= datagram.length
    return datagrams
  }
}
