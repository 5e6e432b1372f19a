import type { NativeMemory } from '../native-memory.ts'
import { readSockaddr } from '../sockaddr.ts'
import { sockaddrSize } from '../struct-layout.ts'
import type { WorkerEnv } from '../worker/worker-env.ts'
import { Doors } from './doors.ts'
import { TcpConnections } from './tcp-connections.ts'

/** What all TCP listeners of a worker have in common. */
export class TcpShared {
  readonly env: WorkerEnv
  readonly doors: Doors
  readonly connections: TcpConnections
  readonly #name: NativeMemory

  constructor(env: WorkerEnv) {
    this.env = env
    this.doors = new Doors(env)
    this.connections = new TcpConnections(env)
    this.#name = env.calls.allocate(sockaddrSize + 8)
  }

  /** The address of the client that was accepted last. */
  get peer(): NativeMemory {
    return this.doors.peer
  }

  /** The address that a client has come to; '' when it is gone again. */
  localAddress(fd: number): string {
    const { address, words } = this.#name
    words[sockaddrSize / 4] = sockaddrSize
    const result = this.env.calls.getsockname(fd, address, address + sockaddrSize)
    return result < 0 ? '' : readSockaddr(this.#name, 0).address
  }

  /** Descriptors have run out, or there are some again. */
  pause(paused: boolean): void {
    this.doors.pause(paused)
    if (paused) this.connections.exhausted()
  }
}
