import { AF_INET } from '../constants.ts'
import { errno, systemError } from '../errno.ts'
import type { CounterWriter } from '../shared/listener-counters.ts'
import type { Bind } from '../../relay.ts'
import { isWildcard } from '../../../util/ip.ts'
import { FlowTable, type Identity } from './flow-table.ts'
import type { ReplySocket } from './reply-queue.ts'
import type { UdpFlow } from './udp-flow.ts'
import type { UdpShared } from './udp-shared.ts'
import type { SocketUser } from './watched-sockets.ts'

/** One is tried again every 10 ms: a second. */
const mostFailures = 100

/** What a listening socket needs of its listener. */
export interface ListeningOwner {
  readonly shared: UdpShared
  readonly counters: CounterWriter
  readonly version: number
  readonly random: () => number
  /** Makes a flow for the client of a slot, or counts why not. */
  begin(
    socket: ListeningSocket,
    slot: number,
    hash: number,
    identity: Identity,
  ): UdpFlow | undefined
  reconsider(flow: UdpFlow): void
  fault(error: unknown): void
}

/** One listening socket. */
export class ListeningSocket implements ReplySocket, SocketUser {
  readonly bind: Bind
  readonly fd: number
  readonly counters: CounterWriter
  readonly flows: FlowTable<UdpFlow>
  readonly #owner: ListeningOwner
  readonly #isWildcard: boolean
  /** In a row; and at how many the next is told. */
  #failures = 0
  #toldAt = mostFailures

  constructor(owner: ListeningOwner, bind: Bind, fd: number) {
    this.#owner = owner
    this.bind = bind
    this.fd = fd
    this.counters = owner.counters
    this.flows = new FlowTable(owner.random)
    this.#isWildcard = isWildcard(bind.address)
  }

  /** Zero, or -errno where the kernel does not let it be watched now. */
  open(): number {
    return this.#owner.shared.watched.add(this.fd, this)
  }

  /** Its flows end; the descriptor is left to the caller, and out of the loop. */
  close(): void {
    const { watched, replies } = this.#owner.shared
    replies.flush()
    for (const flow of this.flows.all()) flow.close()
    watched.remove(this.fd)
  }

  /** At most one batch a turn, so that others have theirs. */
  ready(): void {
    const { incoming, incomingShare } = this.#owner.shared
    const { most } = incomingShare
    const count = incoming.receiveNamed(this.fd, this.#isWildcard, most)
    if (count < 0) return this.#unreadable(count)
    this.#failures = 0
    incomingShare.spend(count)
    this.#deliver(count)
  }

  failed(error: unknown): void {
    this.#owner.fault(error)
  }

  #deliver(count: number): void {
    const { version } = this.#owner
    for (let first = 0; first < count;) {
      const flow = this.#flowAt(first)
      if (flow === undefined) {
        first += 1
        continue
      }
      if (flow.version !== version) {
        this.#owner.reconsider(flow)
        // It may be gone, and the client may begin another.
        if (flow.backend === undefined) continue
      }
      const end = this.#endOfRun(flow, first, count)
      flow.send(first, end)
      first = end
    }
  }

  #flowAt(slot: number): UdpFlow | undefined {
    const { incoming } = this.#owner.shared
    const at = incoming.nameAt(slot)
    const destination = this.#destinationAt(slot)
    const hash = this.flows.hash(incoming, at, destination)
    return (
      this.flows.find(incoming, hash, at, destination) ??
      this.#owner.begin(this, slot, hash, this.#identity(at, destination))
    )
  }

  /** After the last slot in a row whose client is the flow's. */
  #endOfRun(flow: UdpFlow, first: number, count: number): number {
    const { incoming } = this.#owner.shared
    let end = first + 1
    while (
      end < count &&
      this.flows.isOf(flow, incoming, incoming.nameAt(end), this.#destinationAt(end))
    )
      end += 1
    return end
  }

  #destinationAt(slot: number): number {
    return this.#isWildcard ? this.#owner.shared.incoming.destinationAt(slot) : -1
  }

  #identity(at: number, destination: number): Identity {
    const { words } = this.#owner.shared.incoming
    const isIpv4 = ((words[at] ?? 0) & 0xffff) === AF_INET
    return {
      name: words.slice(at, at + (isIpv4 ? 4 : 7)),
      destination:
        destination < 0
          ? undefined
          : words.slice(destination, destination + (isIpv4 ? 1 : 4)),
    }
  }

  #unreadable(result: number): void {
    if (result === -errno.EAGAIN || result === -errno.EINTR) return
    this.#owner.shared.watched.rest(this.fd)
    this.#failures += 1
    // A shortage passes. What doesn't is told, ever less often.
    if (this.#failures < this.#toldAt) return
    this.#toldAt *= 10
    this.#owner.fault(systemError('recvmmsg of a UDP socket', result))
  }
}
