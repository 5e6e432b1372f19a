import { SIOCOUTQ, SO_SNDBUF, SOL_SOCKET } from '../constants.ts'
import type { NativeMemory } from '../native-memory.ts'
import type { Syscalls } from '../syscalls.ts'

/** As much as a pipe takes. */
const most = 1 << 20

/**
 * Asks the kernel how much it would take for a socket's peer: that can be spliced at once, as
 * nothing of it is going to be held. Pieces of 1 MiB cost two thirds of those of 192 KiB.
 */
export class SendRoom {
  readonly #calls: Syscalls
  readonly #answer: NativeMemory

  constructor(calls: Syscalls) {
    this.#calls = calls
    this.#answer = calls.allocate(8)
  }

  /**
   * Bytes that fit into the send queue of `fd` now, at most 1 MiB; 0 when the kernel does not
   * say. What the peer has not acknowledged is still in it (tcp(7), SIOCOUTQ).
   */
  of(fd: number): number {
    const { address, words } = this.#answer
    words[1] = 4
    if (this.#calls.getsockopt(fd, SOL_SOCKET, SO_SNDBUF, address, address + 4) < 0)
      return 0
    const size = words[0] ?? 0
    if (this.#calls.ioctl(fd, SIOCOUTQ, address) < 0) return 0
    return Math.min(Math.max(0, size - (words[0] ?? 0)), most)
  }
}
