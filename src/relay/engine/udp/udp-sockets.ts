import {
  AF_INET,
  AF_INET6,
  EPOLLIN,
  SOCK_CLOEXEC,
  SOCK_DGRAM,
  SOCK_NONBLOCK,
} from '../../../ffi/constants.ts'
import type { EventLoop, EventSource } from '../event-loop.ts'
import { sockaddrSize } from '../../../ffi/struct-layout.ts'
import type { Syscalls, NativeMemory } from '../../../ffi/syscalls.ts'
import { ttlOnward } from '../rings.ts'
import { SocketCalls } from '../tcp/socket-calls.ts'
import type { FdAccount } from '../worker/fd-account.ts'
import type { WorkerBackend, WorkerEnv } from '../worker/worker-backend.ts'

/** What has a socket: a listening one, or a flow's. */
export interface SocketUser {
  /** There is something to be read. */
  ready(): void
  /** `ready` threw. */
  failed(error: unknown): void
}

/** So long a socket is left alone that can't be read for want of memory. */
const pauseMs = 10

/** All UDP sockets of a worker: those of flows are opened and closed here, and all are watched. */
export class UdpSockets implements EventSource<SocketUser> {
  readonly #calls: Syscalls
  readonly #fds: FdAccount
  readonly #loop: EventLoop
  readonly #address: NativeMemory
  readonly options: SocketCalls
  /** Descriptors of those that are paused. */
  readonly #paused = new Set<number>()

  constructor({ calls, fds, loop }: WorkerEnv) {
    this.#calls = calls
    this.#fds = fds
    this.#loop = loop
    this.options = new SocketCalls(calls)
    this.#address = calls.allocate(sockaddrSize)
  }

  /** A socket that is connected to `backend`, or -errno. The caller has paid for it. `ttl`: its client's, if that counts. */
  open(backend: WorkerBackend, ttl = 0): number {
    const sockaddr = backend.sockaddr(this.#address)
    this.#address.bytes.set(sockaddr)
    const family = sockaddr[0] === AF_INET ? AF_INET : AF_INET6
    const fd = this.#calls.socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)
    if (fd < 0) return fd
    this.#fds.opened(fd)
    if (ttl > 0) this.options.setTtl(fd, ttlOnward(ttl))
    const result = this.#calls.connect(fd, this.#address.address, sockaddr.length)
    if (result >= 0) return fd
    this.#fds.close(fd)
    return result
  }

  close(fd: number): void {
    this.unwatch(fd)
    this.#fds.close(fd)
  }

  /** Zero, or -errno. */
  watch(fd: number, user: SocketUser): number {
    return this.#loop.add(fd, this, user, EPOLLIN)
  }

  /** For one that stays open. */
  unwatch(fd: number): void {
    if (this.#paused.size > 0) this.#paused.delete(fd)
    this.#loop.remove(fd)
  }

  /** Not `ready` for a while: it would be so in every turn, and to no avail. */
  pause(fd: number): void {
    this.#loop.modify(fd, 0)
    if (this.#paused.size === 0)
      this.#loop.clock.setTimeout(() => this.#resume(), pauseMs)
    this.#paused.add(fd)
  }

  ready(user: SocketUser): void {
    user.ready()
  }

  failed(user: SocketUser, error: unknown): void {
    user.failed(error)
  }

  #resume(): void {
    for (const fd of this.#paused) this.#loop.modify(fd, EPOLLIN)
    this.#paused.clear()
  }
}
