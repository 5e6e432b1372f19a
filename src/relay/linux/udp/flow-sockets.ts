import {
  AF_INET,
  AF_INET6,
  SOCK_CLOEXEC,
  SOCK_DGRAM,
  SOCK_NONBLOCK,
} from '../constants.ts'
import type { NativeMemory } from '../native-memory.ts'
import { writeSockaddr } from '../sockaddr.ts'
import { sockaddrSize } from '../struct-layout.ts'
import type { Syscalls } from '../syscalls.ts'
import type { FdAccount } from '../worker/fd-account.ts'
import type { WorkerBackend } from '../worker/worker-backend.ts'

/** Opens connected sockets. Their place in the budget is the caller's affair. */
export class FlowSockets {
  readonly #calls: Syscalls
  readonly #fds: Pick<FdAccount, 'opened' | 'close'>
  readonly #address: NativeMemory

  constructor(calls: Syscalls, fds: Pick<FdAccount, 'opened' | 'close'>) {
    this.#calls = calls
    this.#fds = fds
    this.#address = calls.allocate(sockaddrSize)
  }

  /** A socket that is connected to `backend`, or -errno. */
  open(backend: WorkerBackend): number {
    const sockaddr = (backend.sockaddr ??= this.#sockaddrOf(backend))
    this.#address.bytes.set(sockaddr)
    const family = sockaddr[0] === AF_INET ? AF_INET : AF_INET6
    const fd = this.#calls.socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)
    if (fd < 0) return fd
    this.#fds.opened(fd)
    const result = this.#calls.connect(fd, this.#address.address, sockaddr.length)
    if (result >= 0) return fd
    this.#fds.close(fd)
    return result
  }

  close(fd: number): void {
    this.#fds.close(fd)
  }

  #sockaddrOf({ address, port }: WorkerBackend): Uint8Array {
    const length = writeSockaddr(this.#address, 0, address, port)
    return Uint8Array.from(this.#address.bytes.subarray(0, length))
  }
}
