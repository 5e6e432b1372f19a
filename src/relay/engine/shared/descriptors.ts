/**
 * The memory in which all threads keep account of the process's descriptors. Index 0 is
 * the main thread, whose descriptors are listening sockets; workers count from 1.
 */
export interface DescriptorsMemory {
  /** RLIMIT_NOFILE. */
  readonly limit: number
  /** Of which the relay may hold so many. */
  readonly spendable: number
  /** One number: how many all threads hold. */
  readonly used: SharedArrayBuffer
  /** By thread: how many it holds. */
  readonly held: SharedArrayBuffer
  /** By thread: 1 while it would take more if there were any. */
  readonly waiting: SharedArrayBuffer
  /** By descriptor: 1 + the index of the thread that would have to close it; 0: none. */
  readonly owners: SharedArrayBuffer
}

/** Descriptors beyond are not kept track of, though they count: 16 MiB for it is enough. */
const mostTracked = 1 << 24

/** `threads`: the main thread and all workers. `reserved`: for the rest of the process. */
export const newDescriptorsMemory = (
  limit: number,
  reserved: number,
  threads: number,
): DescriptorsMemory => ({
  limit,
  spendable: Math.max(limit - reserved, 4),
  used: new SharedArrayBuffer(4),
  held: new SharedArrayBuffer(threads * 4),
  waiting: new SharedArrayBuffer(threads * 4),
  owners: new SharedArrayBuffer(Math.min(limit, mostTracked)),
})

/**
 * One thread's part in that account: a budget, and a list of what it has
 * open, so that the main thread can close it when the thread dies without doing so.
 *
 * Any worker may take all there is. While another waits, a worker that has its equal share or
 * more takes nothing: what it gives back is for those who have less. Who has less may always
 * take, so that of workers that all wait one can go on.
 */
export class Descriptors {
  readonly limit: number
  readonly spendable: number
  readonly #thread: number
  readonly #used: Int32Array
  readonly #held: Int32Array
  readonly #waiting: Int32Array
  readonly #owners: Uint8Array

  constructor(memory: DescriptorsMemory, thread: number) {
    this.limit = memory.limit
    this.spendable = memory.spendable
    this.#thread = thread
    this.#used = new Int32Array(memory.used)
    this.#held = new Int32Array(memory.held)
    this.#waiting = new Int32Array(memory.waiting)
    this.#owners = new Uint8Array(memory.owners)
  }

  /** Held by all threads. */
  get used(): number {
    return Atomics.load(this.#used, 0)
  }

  get workers(): number {
    return this.#held.length - 1
  }

  /** What each worker may have when all want it: what listening sockets leave, in equal parts. */
  get share(): number {
    const left = this.spendable - (this.#held[0] ?? 0)
    return Math.max(Math.floor(left / Math.max(this.workers, 1)), 1)
  }

  /** Whether `count` are left of all, and this thread may take of them. */
  has(count: number): boolean {
    return this.used + count <= this.spendable && !this.#isOthersTurn
  }

  /** Takes `count` from the budget, or none and answers false. */
  take(count: number): boolean {
    if (this.#isOthersTurn) return false
    for (;;) {
      const used = this.used
      if (used + count > this.spendable) return false
      const found = Atomics.compareExchange(this.#used, 0, used, used + count)
      if (found === used) break
    }
    Atomics.add(this.#held, this.#thread, count)
    return true
  }

  release(count: number): void {
    Atomics.sub(this.#held, this.#thread, count)
    Atomics.sub(this.#used, 0, count)
  }

  /** `count` of what the main thread has taken are this thread's. */
  takeOver(count: number): void {
    Atomics.sub(this.#held, 0, count)
    Atomics.add(this.#held, this.#thread, count)
  }

  /** Whether this thread would take more if it could. */
  wait(isWaiting: boolean): void {
    Atomics.store(this.#waiting, this.#thread, isWaiting ? 1 : 0)
  }

  /** To be called right after a descriptor was opened, or given to this thread. */
  opened(fd: number): void {
    if (fd < this.#owners.length) this.#owners[fd] = this.#thread + 1
  }

  /** To be called right before a descriptor is closed: then its number may be another's. */
  closing(fd: number): void {
    if (fd < this.#owners.length) this.#owners[fd] = 0
  }

  /** What another thread, which is no more, has left open; it counts as holding nothing. */
  inherit(thread: number): number[] {
    const left: number[] = []
    for (let fd = this.#owners.indexOf(thread + 1); fd >= 0;) {
      left.push(fd)
      this.#owners[fd] = 0
      fd = this.#owners.indexOf(thread + 1, fd + 1)
    }
    Atomics.sub(this.#used, 0, Atomics.exchange(this.#held, thread, 0))
    Atomics.store(this.#waiting, thread, 0)
    return left
  }

  /** Whether another worker waits and this one has its share. */
  get #isOthersTurn(): boolean {
    if (this.#thread === 0 || (this.#held[this.#thread] ?? 0) < this.share) return false
    for (let thread = 1; thread <= this.workers; thread += 1) {
      if (thread !== this.#thread && this.#waiting[thread] === 1) return true
    }
    return false
  }
}
