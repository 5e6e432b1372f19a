import { F_SETPIPE_SZ, SOCK_CLOEXEC, SOCK_NONBLOCK } from '../constants.ts'
import type { NativeMemory } from '../native-memory.ts'
import type { Syscalls } from '../syscalls.ts'
import type { FdAccount } from '../worker/fd-account.ts'

/**
 * Room for 256 pieces, of 4 KiB or less, else for 64: an ordinary user gets no more than 64
 * pipes of 1 MiB (pipe(7), pipe-user-pages-soft). What is in them is bounded by the
 * connection's buffer.
 */
const pipeSizes = [1 << 20, 256 << 10] as const

/** A pipe that was used and is empty is kept for the next, up to so many. */
const mostKept = 16

/**
 * Pipes for splice(2), by number. Those of all workers get a quarter of the descriptors at
 * most, as in HAProxy, in equal parts; whoever gets none copies.
 */
export class PipePool {
  readonly #calls: Syscalls
  readonly #fds: FdAccount
  readonly #made: NativeMemory
  readonly #most: number
  readonly #readEnds: number[] = []
  readonly #writeEnds: number[] = []
  readonly #kept: number[] = []
  readonly #free: number[] = []
  #open = 0

  constructor(calls: Syscalls, fds: FdAccount) {
    this.#calls = calls
    this.#fds = fds
    this.#made = calls.allocate(8)
    this.#most = Math.floor(fds.spendable / 4 / 2 / fds.workers)
  }

  /** An empty pipe; -1 when there is none to be had. */
  take(): number {
    return this.#kept.pop() ?? this.#make()
  }

  readEnd(pipe: number): number {
    return this.#readEnds[pipe] ?? -1
  }

  writeEnd(pipe: number): number {
    return this.#writeEnds[pipe] ?? -1
  }

  /** One with something in it is closed: nobody else must read that. */
  giveBack(pipe: number, isEmpty: boolean): void {
    if (isEmpty && this.#kept.length < mostKept && !this.#fds.exhausted) {
      this.#kept.push(pipe)
    } else {
      this.#close(pipe)
    }
  }

  /** Connections need the descriptors of those that nobody uses. */
  closeKept(): void {
    for (let pipe = this.#kept.pop(); pipe !== undefined; pipe = this.#kept.pop()) {
      this.#close(pipe)
    }
  }

  #make(): number {
    if (this.#open >= this.#most || this.#fds.exhausted) return -1
    if (!this.#fds.take(2)) return -1
    const { address, words } = this.#made
    if (this.#calls.pipe(address, SOCK_NONBLOCK | SOCK_CLOEXEC) < 0) {
      this.#fds.release(2)
      return -1
    }
    const [readEnd = -1, writeEnd = -1] = words
    this.#fds.opened(readEnd)
    this.#fds.opened(writeEnd)
    const isLarge = pipeSizes.some(
      size => this.#calls.fcntl(writeEnd, F_SETPIPE_SZ, size) >= 0,
    )
    if (!isLarge) {
      // This user has all the pipes it may: one of two pieces would be slower than copying.
      this.#closeEnds(readEnd, writeEnd)
      return -1
    }
    const pipe = this.#free.pop() ?? this.#readEnds.length
    this.#readEnds[pipe] = readEnd
    this.#writeEnds[pipe] = writeEnd
    this.#open += 1
    return pipe
  }

  #close(pipe: number): void {
    this.#closeEnds(this.readEnd(pipe), this.writeEnd(pipe))
    this.#free.push(pipe)
    this.#open -= 1
  }

  #closeEnds(readEnd: number, writeEnd: number): void {
    this.#fds.close(readEnd)
    this.#fds.close(writeEnd)
    this.#fds.release(2)
  }
}
