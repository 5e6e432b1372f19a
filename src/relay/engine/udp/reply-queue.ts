import { errno } from '../../../ffi/errno.ts'
import type { Counters } from '../../counters.ts'
import type { Syscalls } from '../../../ffi/syscalls.ts'
import { type Address, DatagramBatch, isUncut, slots } from './datagram-batch.ts'
import { TurnShare } from './turn-share.ts'

/** The listening socket by which replies leave, and whose they are. */
export interface ReplySocket {
  readonly fd: number
  readonly counters: Counters
}

/** The client a reply is for. */
export interface ReplyTo extends Address {
  /** Whether the way to it takes packets that are cut up on the way. */
  cutsReplies: boolean
}

/** One flow may read so many replies at a time; the others then have their turn. */
const mostOfOneFlow = 32

/**
 * Replies of many flows of a listening socket on their way out: they leave together, at
 * the end of the turn at the latest. Of 16 flows that each have a reply, that makes one
 * system call where there were 16.
 */
export class ReplyQueue {
  readonly #batch: DatagramBatch
  readonly #share = new TurnShare(mostOfOneFlow)
  #socket: ReplySocket | undefined
  /** Slots that have a datagram. */
  #filled = 0
  /** Headers, each with one or more slots; who they are for, and how many. */
  #headers = 0
  readonly #to: (ReplyTo | undefined)[] = []
  readonly #firsts = new Int32Array(slots)
  readonly #counts = new Int32Array(slots)

  constructor(calls: Syscalls) {
    this.#batch = new DatagramBatch(calls, false)
  }

  /** Reads replies from a flow's connected socket; how many, or -errno. */
  receive(fd: number, socket: ReplySocket, to: ReplyTo): number {
    if (this.#socket !== socket || this.#filled > slots - mostOfOneFlow) this.flush()
    this.#socket = socket
    const first = this.#filled
    const count = this.#batch.receivePlain(fd, first, this.#share.most)
    if (count <= 0) return count
    this.#share.spend(count)
    this.#filled += count
    for (let slot = first; slot < this.#filled;) {
      const together = to.cutsReplies ? this.#batch.alike(slot, this.#filled) : 1
      this.#enqueue(to, slot, together)
      slot += together
    }
    return count
  }

  /** Sends what is waiting at the end of a turn. */
  endTurn(): void {
    this.flush()
    this.#share.renew()
  }

  /** Sends what is waiting. To be called before its listening socket goes away, too. */
  flush(): void {
    const socket = this.#socket
    const headers = this.#headers
    const filled = this.#filled
    this.#filled = 0
    this.#headers = 0
    this.#socket = undefined
    if (socket === undefined || headers === 0) return
    const { counters } = socket
    // Before they are sent: a client that has its answer finds it counted.
    counters.add('datagramsToClient', filled)
    counters.add('bytesToClient', this.#bytes(0, filled))
    let interrupts = 0
    for (let at = 0; at < headers;) {
      const sent = this.#batch.sendNamed(socket.fd, at, headers)
      if (sent > 0) at += sent
      else if (sent === -errno.EINTR && interrupts < slots) interrupts += 1
      else {
        // The fault of the first one: those behind it may still go.
        this.#unsent(socket, at, sent)
        at += 1
      }
    }
  }

  #enqueue(to: ReplyTo, first: number, count: number): void {
    const header = this.#headers
    this.#headers += 1
    this.#to[header] = to
    this.#firsts[header] = first
    this.#counts[header] = count
    this.#batch.address(header, to, first, count)
  }

  /** What could not be sent together may still go one by one: the path's MTU decides. */
  #unsent(socket: ReplySocket, header: number, result: number): void {
    const to = this.#to[header]
    const first = this.#firsts[header] ?? 0
    const count = this.#counts[header] ?? 0
    if (to === undefined || count === 1) return this.#lost(socket, first)
    if (isUncut(result)) to.cutsReplies = false
    for (let slot = first; slot < first + count; slot += 1) {
      this.#batch.address(header, to, slot, 1)
      if (this.#batch.sendNamed(socket.fd, header, header + 1) < 0)
        this.#lost(socket, slot)
    }
  }

  #lost({ counters }: ReplySocket, slot: number): void {
    counters.add('datagramsToClient', -1)
    counters.add('bytesToClient', -this.#batch.length(slot))
    counters.countDrop('send-failed')
  }

  #bytes(first: number, end: number): number {
    let bytes = 0
    for (let slot = first; slot < end; slot += 1) bytes += this.#batch.length(slot)
    return bytes
  }
}
