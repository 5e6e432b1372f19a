import type { Choice } from '../../front.ts'
import { moved } from '../moved.ts'
import { readSockaddr } from '../sockaddr.ts'
import type { NativeMemory } from '../native-memory.ts'
import type { WorkerBackend } from '../worker/worker-backend.ts'
import type { Story } from './story.ts'
import type { TcpListener } from './tcp-listener.ts'

/**
 * A connection has two sides, `client` and `backend`, numbered 2n and 2n + 1, so that the
 * opposite of a side is `side ^ 1` and its connection `side >> 1`.
 */
export const clientSide = (connection: number): number => connection * 2
export const backendSide = (connection: number): number => connection * 2 + 1
export const opposite = (side: number): number => side ^ 1
export const connectionOf = (side: number): number => side >> 1
export const isBackend = (side: number): boolean => (side & 1) === 1

/** Each connection holds one descriptor for the client and one for the backend. */
export const fdsPerConnection = 2

export const state = {
  free: 0,
  dialling: 1,
  open: 2,
  /** One side was reset; the other is to get what was received, then a reset. */
  delivering: 3,
} as const

/** What is known of a side. */
export const flag = {
  /** There may be something to read: the kernel said so and no read has found the end. */
  readable: 1,
  /** The peer has sent a FIN, or worse: a short read does not mean that there is no more. */
  hungUp: 2,
  /** Its end was read. */
  ended: 4,
  /** Our FIN was sent to it. */
  finished: 8,
  /** A write failed: whatever comes after the last bytes is a reset. */
  broken: 16,
  /** The kernel is asked to tell when there is room to write. */
  watchesRoom: 32,
  /** It was written to once; before the second time Nagle's algorithm is switched off. */
  wroteOnce: 64,
  noDelay: 128,
  /** It is in the loop's list of those to be called again. */
  queued: 256,
  /** Reads stop at urgent data (tcp(7)): a short one says nothing. */
  urgent: 512,
  /** The peer has sent a FIN and nothing worse so far: when all is read, its end is too. */
  finSeen: 1024,
  /** There was no room to write; the kernel tells when there is. */
  full: 2048,
  /** The kernel has told of its reset, before which there may have been a FIN. */
  reset: 4096,
} as const

const sockaddrWords = 7
const smallest = 256

/** The state of all TCP connections of a worker, in arrays: connections allocate nothing. */
export class ConnectionTable {
  /** By connection. */
  state = new Uint8Array(0)
  /** Goes up when it ends: who keeps the number for later sees whether it is another's. */
  generation = new Uint32Array(0)
  acceptedAt = new Float64Array(0)
  connectedAt = new Float64Array(0)
  #peers = new Int32Array(0)
  readonly listener: (TcpListener | undefined)[] = []
  readonly backend: (WorkerBackend | undefined)[] = []
  readonly choice: (Choice<WorkerBackend> | undefined)[] = []
  /** What is out of the ordinary. */
  readonly story: (Story | undefined)[] = []

  /** By side. */
  fd = new Int32Array(0)
  flags = new Uint16Array(0)
  /** Bytes read from it. */
  bytes = new Float64Array(0)
  /** Its pipe, -1 for none; what is in there was read from it. */
  pipe = new Int32Array(0)
  piped = new Int32Array(0)
  /** How many full, or in a pipe meagre, reads there were in a row. */
  streak = new Uint8Array(0)
  /** Read from it, and not yet taken by the opposite side. */
  readonly stuck: (Buffer | undefined)[] = []

  #size = 0
  #used = 0
  readonly #free: number[] = []

  /** Connections that have not ended. */
  get active(): number {
    return this.#used - this.#free.length
  }

  /** All numbers that may be in use are below. */
  get used(): number {
    return this.#used
  }

  /** Takes a number for a connection whose client's address lies at the start of `peer`. */
  add(listener: TcpListener, client: number, peer: NativeMemory, now: number): number {
    const connection = this.#free.pop() ?? this.#used++
    if (connection >= this.#size) this.#grow()
    const side = clientSide(connection)
    this.state[connection] = state.dialling
    this.acceptedAt[connection] = now
    this.connectedAt[connection] = 0
    this.listener[connection] = listener
    this.#reset(side, client)
    this.#reset(side + 1, -1)
    const { words } = peer
    const at = connection * sockaddrWords
    for (let i = 0; i < sockaddrWords; i += 1) this.#peers[at + i] = words[i] ?? 0
    return connection
  }

  /** Its number may be another's from now on. */
  end(connection: number): void {
    this.state[connection] = state.free
    this.generation[connection] = (this.generation[connection] ?? 0) + 1
    this.listener[connection] = undefined
    this.backend[connection] = undefined
    this.choice[connection] = undefined
    this.story[connection] = undefined
    this.#free.push(connection)
  }

  /** Who the client is. */
  peerOf(connection: number): { readonly address: string; readonly port: number } {
    const at = connection * sockaddrWords
    const words = this.#peers.slice(at, at + sockaddrWords)
    return readSockaddr({ view: new DataView(words.buffer) }, 0)
  }

  has(side: number, mask: number): boolean {
    return ((this.flags[side] ?? 0) & mask) !== 0
  }

  set(side: number, mask: number): void {
    this.flags[side] = (this.flags[side] ?? 0) | mask
  }

  unset(side: number, mask: number): void {
    this.flags[side] = (this.flags[side] ?? 0) & ~mask
  }

  /** Whether something that was read from a side waits to be written. */
  holds(side: number): boolean {
    return this.stuck[side] !== undefined || (this.piped[side] ?? 0) > 0
  }

  #reset(side: number, fd: number): void {
    this.fd[side] = fd
    this.flags[side] = 0
    this.bytes[side] = 0
    this.pipe[side] = -1
    this.piped[side] = 0
    this.streak[side] = 0
    this.stuck[side] = undefined
  }

  #grow(): void {
    const size = Math.max(smallest, this.#size * 2)
    const sides = size * 2
    this.state = moved(this.state, new Uint8Array(size))
    this.generation = moved(this.generation, new Uint32Array(size))
    this.acceptedAt = moved(this.acceptedAt, new Float64Array(size))
    this.connectedAt = moved(this.connectedAt, new Float64Array(size))
    this.#peers = moved(this.#peers, new Int32Array(size * sockaddrWords))
    this.fd = moved(this.fd, new Int32Array(sides).fill(-1))
    this.flags = moved(this.flags, new Uint16Array(sides))
    this.bytes = moved(this.bytes, new Float64Array(sides))
    this.pipe = moved(this.pipe, new Int32Array(sides).fill(-1))
    this.piped = moved(this.piped, new Int32Array(sides))
    this.streak = moved(this.streak, new Uint8Array(sides))
    this.#size = size
  }
}
