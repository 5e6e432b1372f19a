/** For all workers of a listener. */
export const newQueueTickets = (workers = 1): QueueTickets =>
  new QueueTickets(new SharedArrayBuffer((1 + 2 * workers) * 8))

const nobody = 0n
const firstDrawn = 1n

/** Of those that wait in a worker. */
export interface FirstTicket {
  readonly worker: number
  readonly ticket: bigint
}

/**
 * The order in which clients of a listener wait, over all its workers: each client has a ticket,
 * and each worker says which of its tickets is the first.
 */
export class QueueTickets {
  readonly memory: SharedArrayBuffer
  readonly worker: number
  /**
   * Cell 0: the last ticket that was drawn; then for each worker its first ticket, or `nobody`; then
   * the ticket for which it was offered a place, or `nobody`.
   */
  readonly #cells: BigInt64Array
  readonly #workers: number

  /** `worker`: whose tickets are drawn, from 1 on. */
  constructor(memory: SharedArrayBuffer, worker = 1) {
    this.memory = memory
    this.worker = worker
    this.#cells = new BigInt64Array(memory)
    this.#workers = (this.#cells.length - 1) / 2
  }

  draw(): bigint {
    return Atomics.add(this.#cells, 0, 1n) + 1n
  }

  /** Undefined: nobody waits in this worker. */
  setFirst(ticket: bigint | undefined): void {
    Atomics.store(this.#cells, this.worker, ticket ?? nobody)
  }

  /** The first ticket from `from` on, of all workers but `except`; undefined: nobody waits there. */
  first(from = firstDrawn, except?: number): FirstTicket | undefined {
    let first: FirstTicket | undefined
    for (let worker = 1; worker <= this.#workers; worker += 1) {
      const ticket = Atomics.load(this.#cells, worker)
      if (worker === except || ticket < from) continue
      if (first === undefined || ticket < first.ticket) first = { worker, ticket }
    }
    return first
  }

  /** There is a place for a client of that worker; it is to be woken. The lowest offer stands. */
  offer({ worker, ticket }: FirstTicket): void {
    const cell = this.#workers + worker
    for (;;) {
      const offered = Atomics.load(this.#cells, cell)
      if (offered !== nobody && offered <= ticket) return
      if (Atomics.compareExchange(this.#cells, cell, offered, ticket) === offered) return
    }
  }

  /** The ticket for which this worker was offered a place since it was last asked. */
  takeOffer(): bigint | undefined {
    const offered = Atomics.exchange(this.#cells, this.#workers + this.worker, nobody)
    return offered === nobody ? undefined : offered
  }
}
