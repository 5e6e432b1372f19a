import { isOutOfResources } from '../../../util/out-of-resources.ts'
import { EPOLLIN, SOCK_CLOEXEC, SOCK_NONBLOCK } from '../constants.ts'
import { errno, errnoName } from '../errno.ts'
import type { EventSource } from '../event-loop.ts'
import type { NativeMemory } from '../native-memory.ts'
import { sockaddrSize } from '../struct-layout.ts'
import type { WorkerEnv } from '../worker/worker-env.ts'
import { fdsPerConnection } from './connection-table.ts'

export interface Acceptor {
  readonly name: string
  /**
   * A client came in at the address with `key`; its own is `Doors.peer` until the next. Its
   * connection's descriptors are paid for. When it throws, all of that is still the caller's.
   */
  accepted(fd: number, key: string): void
}

interface Door {
  readonly acceptor: Acceptor
  readonly key: string
  readonly fd: number
}

/** Clients that one socket may let in before others have their turn. */
const mostAtOnce = 64

/** How long after the kernel refused to watch a socket it is asked once more. */
const watchAgainMs = 100

/** The listening TCP sockets of a worker. Level-triggered: who waits is told of again. */
export class Doors implements EventSource {
  /** The address of who was accepted last. */
  readonly peer: NativeMemory
  readonly #env: WorkerEnv
  readonly #source: number
  readonly #doors: (Door | undefined)[] = []
  readonly #free: number[] = []
  #isPaused = false

  constructor(env: WorkerEnv) {
    this.#env = env
    this.#source = env.loop.register(this)
    this.peer = env.calls.allocate(sockaddrSize + 8)
  }

  open(acceptor: Acceptor, key: string, fd: number): number {
    const door = this.#free.pop() ?? this.#doors.length
    const opened = { acceptor, key, fd }
    this.#doors[door] = opened
    const result = this.#watch(door, opened)
    if (result < 0) {
      const error = new Error(`can't watch ${key} yet: ${errnoName(result)}`)
      this.#env.teller.fault(acceptor.name, error)
    }
    return door
  }

  /** Tries again until the kernel has memory for it: clients are in its queue already. */
  #watch(door: number, opened: Door): number {
    const { loop } = this.#env
    const result = loop.add(opened.fd, this.#source, door, this.#events)
    if (result < 0) {
      loop.clock.setTimeout(() => {
        if (this.#doors[door] === opened) this.#watch(door, opened)
      }, watchAgainMs)
    }
    return result
  }

  /** Stops watching it; gives the descriptor. */
  release(door: number): number {
    const { fd = -1 } = this.#doors[door] ?? {}
    if (fd < 0) return -1
    this.#env.loop.remove(fd)
    this.#doors[door] = undefined
    this.#free.push(door)
    return fd
  }

  /** Clients wait in the kernel's queue, as at HAProxy's maxconn. */
  pause(paused: boolean): void {
    if (this.#isPaused === paused) return
    this.#isPaused = paused
    for (const door of this.#doors) {
      if (door !== undefined) this.#env.loop.modify(door.fd, this.#events)
    }
  }

  ready(door: number): void {
    for (let count = 0; count < mostAtOnce && !this.#isPaused; count += 1) {
      const one = this.#doors[door]
      if (one === undefined || !this.#acceptOne(one)) return
    }
  }

  /** Whether there may be more. */
  #acceptOne(one: Door): boolean {
    const { fds } = this.#env
    // Paid for first: whoever can't be served waits in the queue, instead of being reset.
    if (!fds.take(fdsPerConnection)) return false
    let fd = -1
    try {
      fd = this.#accept(one)
      if (fd >= 0) one.acceptor.accepted(fd, one.key)
    } catch (error) {
      if (fd >= 0) fds.close(fd)
      fds.release(fdsPerConnection)
      this.#env.teller.fault(one.acceptor.name, error)
      return true
    }
    if (fd >= 0) return true
    fds.release(fdsPerConnection)
    if (isPassing(fd)) return true
    this.#failed(one, fd)
    return false
  }

  #accept(one: Door): number {
    const { calls, fds } = this.#env
    const { peer } = this
    peer.words[sockaddrWords] = sockaddrSize
    const fd = calls.accept(
      one.fd,
      peer.address,
      peer.address + sockaddrSize,
      SOCK_NONBLOCK | SOCK_CLOEXEC,
    )
    if (fd >= 0) fds.opened(fd)
    return fd
  }

  failed(door: number, error: unknown): void {
    this.#env.teller.fault(this.#doors[door]?.acceptor.name ?? '', error)
  }

  #failed({ acceptor, fd }: Door, result: number): void {
    if (result === -errno.EAGAIN) return
    // The main thread has shut it, and is about to say so.
    if (result === -errno.EINVAL) return void this.#env.loop.remove(fd)
    const code = errnoName(result)
    // Waiting helps: see FdAccount.
    if (isOutOfResources(code)) this.#env.fds.exhaust()
    else this.#env.teller.fault(acceptor.name, new Error(`accept4: ${code}`))
  }

  get #events(): number {
    return this.#isPaused ? 0 : EPOLLIN
  }
}

const sockaddrWords = sockaddrSize / 4

/**
 * The client was gone before it was accepted, or a signal came. Linux also passes on here
 * what the network said of the new connection (accept(2), "Error handling").
 */
const passing = new Set([
  -errno.ECONNABORTED,
  -errno.EINTR,
  -errno.ENETDOWN,
  -errno.EPROTO,
  -errno.ENOPROTOOPT,
  -errno.EHOSTUNREACH,
  -errno.EOPNOTSUPP,
  -errno.ENETUNREACH,
])

const isPassing = (result: number): boolean => passing.has(result)
