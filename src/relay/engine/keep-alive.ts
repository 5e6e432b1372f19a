import type { RelayLimits } from '../relay.ts'
import {
  IPPROTO_TCP,
  SO_KEEPALIVE,
  SOL_SOCKET,
  TCP_KEEPCNT,
  TCP_KEEPIDLE,
  TCP_KEEPINTVL,
  TCP_USER_TIMEOUT,
} from '../../ffi/constants.ts'
import type { Syscalls, NativeMemory } from '../../ffi/syscalls.ts'

export type KeepAliveLimits = Pick<
  RelayLimits,
  'tcpKeepalive' | 'tcpKeepaliveInterval' | 'tcpKeepaliveProbes' | 'tcpUserTimeout'
>

/** Connections that last so long get it, in milliseconds; most are over before. */
export const keepAliveAfterMs = 5000

/** When the kernel gives up a peer that it does not hear of (tcp(7)). */
export class KeepAlive {
  readonly #calls: Pick<Syscalls, 'setsockopt'>
  readonly #limits: KeepAliveLimits
  readonly #memory: NativeMemory

  constructor(calls: Pick<Syscalls, 'setsockopt' | 'allocate'>, limits: KeepAliveLimits) {
    this.#calls = calls
    this.#limits = limits
    this.#memory = calls.allocate(4)
  }

  /** A listening socket hands it on to those it accepts. */
  set(fd: number): void {
    const {
      tcpKeepalive = 15_000,
      tcpKeepaliveInterval = 1000,
      tcpKeepaliveProbes = 10,
      tcpUserTimeout = 0,
    } = this.#limits
    if (tcpUserTimeout > 0) this.#set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, tcpUserTimeout)
    if (tcpKeepalive === 0) return
    this.#set(fd, IPPROTO_TCP, TCP_KEEPIDLE, seconds(tcpKeepalive))
    this.#set(fd, IPPROTO_TCP, TCP_KEEPINTVL, seconds(tcpKeepaliveInterval))
    this.#set(fd, IPPROTO_TCP, TCP_KEEPCNT, tcpKeepaliveProbes)
    this.#set(fd, SOL_SOCKET, SO_KEEPALIVE, 1)
  }

  #set(fd: number, level: number, name: number, value: number): void {
    this.#memory.words[0] = value
    this.#calls.setsockopt(fd, level, name, this.#memory.address, 4)
  }
}

/** At least 1: the kernel takes no 0. */
const seconds = (ms: number): number => Math.max(1, Math.round(ms / 1000))
