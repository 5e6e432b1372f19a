/** For all workers of a listener. */
export const newQueueTickets = (workers = 1): QueueTickets =>
  new QueueTickets(new SharedArrayBuffer((1 + 2 * workers) * 8))

const nobody = 0n

/**
 * The order in which clients of a listener wait, over all its workers: each client has a ticket,
 * and each worker says which of its tickets is the first.
 */
export class QueueTickets {
  readonly memory: SharedArrayBuffer
  readonly worker: number
  /**
   * Cell 0: the last ticket that was drawn; then for each worker its first ticket, or `nobody`; then
   * whether it was offered a place.
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

  /** The worker with the first ticket after `after`; undefined when nobody waits there. */
  firstWorker(after = nobody): number | undefined {
    const cells = this.#cells
    let first: bigint | undefined
    let found: number | undefined
    for (let worker = 1; worker <= this.#workers; worker += 1) {
      const ticket = Atomics.load(cells, worker)
      if (ticket <= after || (first !== undefined && ticket >= first)) continue
      first = ticket
      found = worker
    }
    return found
  }

  /** There is a place for a client of that worker; it is to be woken. */
  offer(worker: number): void {
    Atomics.store(this.#cells, this.#workers + worker, 1n)
  }

  /** Whether this worker was offered one since it was last asked. */
  takeOffer(): boolean {
    return Atomics.exchange(this.#cells, this.#workers + this.worker, 0n) !== 0n
  }

  /** The thread of a worker is no more, and who waited in it: the others are to be woken. */
  lost(worker: number): void {
    Atomics.store(this.#cells, worker, nobody)
    for (let other = 1; other <= this.#workers; other += 1) this.offer(other)
  }
}
