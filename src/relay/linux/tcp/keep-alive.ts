import {
  IPPROTO_TCP,
  SO_KEEPALIVE,
  SOL_SOCKET,
  TCP_KEEPCNT,
  TCP_KEEPIDLE,
  TCP_KEEPINTVL,
  TCP_USER_TIMEOUT,
} from '../constants.ts'
import type { NativeMemory } from '../native-memory.ts'
import type { WorkerEnv } from '../worker/worker-env.ts'

/** Sets the options of backends' sockets that last; accepted ones have them from the listening one. */
export class KeepAlive {
  readonly #env: WorkerEnv
  readonly #value: NativeMemory

  constructor(env: WorkerEnv) {
    this.#env = env
    this.#value = env.calls.allocate(4)
  }

  enable(fd: number): void {
    const { limits } = this.#env
    const { keepAliveIdleMs = 15_000, keepAliveIntervalMs = 1000 } = limits
    const { keepAliveProbes = 10, userTimeoutMs = 0 } = limits
    if (fd < 0) return
    if (userTimeoutMs > 0) this.#set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, userTimeoutMs)
    if (keepAliveIdleMs === 0) return
    const idle = Math.max(1, Math.round(keepAliveIdleMs / 1000))
    const interval = Math.max(1, Math.round(keepAliveIntervalMs / 1000))
    this.#set(fd, IPPROTO_TCP, TCP_KEEPIDLE, idle)
    this.#set(fd, IPPROTO_TCP, TCP_KEEPINTVL, interval)
    this.#set(fd, IPPROTO_TCP, TCP_KEEPCNT, keepAliveProbes)
    this.#set(fd, SOL_SOCKET, SO_KEEPALIVE, 1)
  }

  #set(fd: number, level: number, name: number, value: number): void {
    this.#value.words[0] = value
    this.#env.calls.setsockopt(fd, level, name, this.#value.address, 4)
  }
}
