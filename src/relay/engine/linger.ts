import { SO_LINGER, SOL_SOCKET } from '../../ffi/constants.ts'
import type { Syscalls, NativeMemory } from '../../ffi/syscalls.ts'

/**
 * How a TCP socket ends when it is closed (SO_LINGER, socket(7)). While a connection is under
 * way both of its sockets would be reset: the kernel closes them too when the process is killed
 * or crashes, and a FIN would make a part of an answer look like all of it. Only an end in
 * order takes that back.
 */
export class Linger {
  readonly #calls: Pick<Syscalls, 'setsockopt'>
  /** Two `struct linger`: off, and on with 0 s. */
  readonly #memory: NativeMemory

  constructor(calls: Pick<Syscalls, 'setsockopt' | 'allocate'>) {
    this.#calls = calls
    this.#memory = calls.allocate(2 * lingerSize)
    this.#memory.words[2] = 1
  }

  /**
   * close(2) is going to reset it. A listening socket hands that on to those it accepts. 0, or
   * a negative errno: such a socket should not be used.
   */
  reset(fd: number): number {
    const { address } = this.#memory
    return this.#calls.setsockopt(
      fd,
      SOL_SOCKET,
      SO_LINGER,
      address + lingerSize,
      lingerSize,
    )
  }

  /** close(2) is going to send what is unsent, and a FIN. */
  finish(fd: number): void {
    const { address } = this.#memory
    this.#calls.setsockopt(fd, SOL_SOCKET, SO_LINGER, address, lingerSize)
  }
}

const lingerSize = 8
