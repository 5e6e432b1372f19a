import type { NativeMemory } from '../native-memory.ts'
import { sockaddrSize } from '../struct-layout.ts'
import type { Syscalls } from '../syscalls.ts'

/**
 * Finds a dial that has met itself: on one host a dial to a port of the ephemeral range at
 * which there is no listener may be given that very port for its own, and then TCP's simultaneous
 * open connects it to itself (RFC 9293, 3.5).
 */
export class SelfConnect {
  readonly #calls: Syscalls
  readonly #names: NativeMemory

  constructor(calls: Syscalls) {
    this.#calls = calls
    this.#names = calls.allocate(2 * sockaddrSize + 4)
  }

  /** Whether a connected socket has its own address for its peer's. */
  of(fd: number): boolean {
    const { address, bytes, words } = this.#names
    const length = 2 * sockaddrSize
    bytes.fill(0)
    words[length / 4] = sockaddrSize
    this.#calls.getsockname(fd, address, address + length)
    words[length / 4] = sockaddrSize
    this.#calls.getpeername(fd, address + sockaddrSize, address + length)
    return bytes.compare(bytes, sockaddrSize, length, 0, sockaddrSize) === 0
  }
}
