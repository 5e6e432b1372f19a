import { F_SETPIPE_SZ, SOCK_CLOEXEC, SOCK_NONBLOCK } from '../../../ffi/constants.ts'
import { errno } from '../../../ffi/errno.ts'
import type { Syscalls, NativeMemory } from '../../../ffi/syscalls.ts'
import type { FdAccount } from '../worker/fd-account.ts'

/**
 * Room for 256 pieces, of 4 KiB or less, else for 64: an ordinary user gets no more than 64
 * pipes of 1 MiB (pipe(7), pipe-user-pages-soft). What is in them is bounded by the
 * connection's buffer.
 */
const pipeSizes = [1 << 20, 256 << 10] as const

/** A pipe that was used and is empty is kept for the next, up to so many. */
const mostKept = 16

export interface Pipe {
  readonly readEnd: number
  readonly writeEnd: number
}

/**
 * Pipes for splice(2). Those of all workers get a quarter of the descriptors at most, as in
 * HAProxy, in equal parts; a direction that gets none is copied.
 */
export class PipePool {
  readonly #calls: Syscalls
  readonly #fds: FdAccount
  readonly #made: NativeMemory
  #most: number
  readonly #kept: Pipe[] = []
  #open = 0

  constructor(calls: Syscalls, fds: FdAccount) {
    this.#calls = calls
    this.#fds = fds
    this.#made = calls.allocate(8)
    this.#most = Math.floor(fds.spendable / 4 / 2 / fds.workers)
  }

  /** An empty pipe, if there may be one more. */
  take(): Pipe | undefined {
    return this.#kept.pop() ?? this.#make()
  }

  /** One of another process's, with what is in it; its two descriptors are paid for. */
  adopt(readEnd: number, writeEnd: number): Pipe {
    this.#open += 1
    return { readEnd, writeEnd }
  }

  /** One with something in it is closed: no other connection must read that. */
  giveBack(pipe: Pipe, isEmpty: boolean): void {
    if (isEmpty && this.#kept.length < mostKept && !this.#fds.exhausted) {
      this.#kept.push(pipe)
    } else {
      this.#close(pipe)
    }
  }

  /** Connections need the descriptors of those that are not in use. */
  closeKept(): void {
    for (const pipe of this.#kept.splice(0)) this.#close(pipe)
  }

  #make(): Pipe | undefined {
    if (this.#open >= this.#most || this.#fds.exhausted) return undefined
    if (!this.#fds.take(2)) return undefined
    const { address, words } = this.#made
    const result = this.#calls.pipe(address, SOCK_NONBLOCK | SOCK_CLOEXEC)
    if (result < 0) {
      if (result === -errno.ENOSYS) this.#most = 0
      this.#fds.release(2)
      return undefined
    }
    const [readEnd = -1, writeEnd = -1] = words
    this.#fds.opened(readEnd)
    this.#fds.opened(writeEnd)
    this.#open += 1
    const pipe = { readEnd, writeEnd }
    const isLarge = pipeSizes.some(
      size => this.#calls.fcntl(writeEnd, F_SETPIPE_SZ, size) >= 0,
    )
    if (isLarge) return pipe
    // This user has all the pipes it may: one of two pieces would be slower than copying.
    this.#close(pipe)
    return undefined
  }

  #close({ readEnd, writeEnd }: Pipe): void {
    this.#fds.close(readEnd)
    this.#fds.close(writeEnd)
    this.#fds.release(2)
    this.#open -= 1
  }
}
