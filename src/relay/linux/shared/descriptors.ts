/**
 * The memory in which all threads keep account of the process's descriptors. Index 0 is
 * the main thread, whose descriptors are listening sockets; workers count from 1.
 */
export interface DescriptorsMemory {
  /** RLIMIT_NOFILE. */
  readonly limit: number
  /** Of which the relay may hold so many. */
  readonly spendable: number
  /** By thread: how many it holds. */
  readonly held: SharedArrayBuffer
  /** By descriptor: 1 + the index of the thread that would have to close it; 0: nobody. */
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
  held: new SharedArrayBuffer(threads * 4),
  owners: new SharedArrayBuffer(Math.min(limit, mostTracked)),
})

/**
 * One thread's part in that account: a budget like `FdBudget`, and a list of what it has
 * open, so that somebody can close it when the thread dies without doing so.
 */
export class Descriptors {
  readonly limit: number
  readonly spendable: number
  readonly #thread: number
  readonly #held: Int32Array
  readonly #owners: Uint8Array

  constructor({ limit, spendable, held, owners }: DescriptorsMemory, thread: number) {
    this.limit = limit
    this.spendable = spendable
    this.#thread = thread
    this.#held = new Int32Array(held)
    this.#owners = new Uint8Array(owners)
  }

  /** Held by all threads. */
  get used(): number {
    let used = 0
    for (let i = 0; i < this.#held.length; i += 1) used += this.#held[i] ?? 0
    return used
  }

  get available(): number {
    return this.spendable - this.used
  }

  /** Takes `count` from the budget, or none and answers false. */
  take(count: number): boolean {
    if (this.used + count > this.spendable) return false
    Atomics.add(this.#held, this.#thread, count)
    return true
  }

  release(count: number): void {
    Atomics.sub(this.#held, this.#thread, count)
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
    Atomics.store(this.#held, thread, 0)
    return left
  }
}
