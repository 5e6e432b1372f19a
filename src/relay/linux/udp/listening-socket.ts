import { AF_INET } from '../../../ffi/constants.ts'
import { errno, systemError } from '../../../ffi/errno.ts'
import type { Counters } from '../../counters.ts'
import type { Bind, DropReason } from '../../relay.ts'
import { isWildcard } from '../../../util/ip.ts'
import { FlowTable, type Identity } from './flow-table.ts'
import { type FlowSocket, UdpFlow } from './udp-flow.ts'
import type { UdpService } from './udp-service.ts'
import type { SocketUser } from './udp-sockets.ts'

/** One is tried again every 10 ms: a second. */
const mostFailures = 100

/** One listening socket. */
export class ListeningSocket implements FlowSocket, SocketUser {
  readonly bind: Bind
  readonly fd: number
  readonly counters: Counters
  readonly flows: FlowTable<UdpFlow>
  readonly #service: UdpService
  readonly #isWildcard: boolean
  /** In a row; and at how many the next is reported. */
  #failures = 0
  #reportedAt = mostFailures

  constructor(service: UdpService, bind: Bind, fd: number) {
    this.#service = service
    this.bind = bind
    this.fd = fd
    this.counters = service.counters
    this.flows = new FlowTable(service.random)
    this.#isWildcard = isWildcard(bind.address)
  }

  /** Zero, or -errno where the kernel does not let it be watched now. */
  open(): number {
    return this.#service.shared.sockets.watch(this.fd, this)
  }

  /** Its flows end; the descriptor is left to the caller, and out of the loop. */
  close(): void {
    const { sockets, replies } = this.#service.shared
    replies.flush()
    for (const flow of this.flows.all()) flow.close()
    sockets.unwatch(this.fd)
  }

  /** At most one batch a turn, so that others have theirs. */
  ready(): void {
    const { incoming, incomingShare } = this.#service.shared
    const { most } = incomingShare
    const count = incoming.receiveNamed(this.fd, this.#isWildcard, most)
    if (count < 0) return this.#unreadable(count)
    this.#failures = 0
    incomingShare.spend(count)
    this.#deliver(count)
  }

  failed(error: unknown): void {
    this.#service.fault(error)
  }

  #deliver(count: number): void {
    const { version } = this.#service
    for (let first = 0; first < count;) {
      const flow = this.#flowAt(first)
      if (flow === undefined) {
        first += 1
        continue
      }
      if (flow.version !== version) {
        flow.reconsider()
        // It may be gone, and the client may begin another.
        if (flow.backend === undefined) continue
      }
      const end = this.#endOfRun(flow, first, count)
      flow.send(first, end)
      first = end
    }
  }

  #flowAt(slot: number): UdpFlow | undefined {
    const { incoming } = this.#service.shared
    const at = incoming.nameAt(slot)
    const destination = this.#destinationAt(slot)
    const hash = this.flows.hash(incoming, at, destination)
    return (
      this.flows.find(incoming, hash, at, destination) ??
      this.#begin(slot, hash, this.#identity(at, destination))
    )
  }

  /** Makes a flow for the client of a slot, or counts why not. */
  #begin(slot: number, hash: number, identity: Identity): UdpFlow | undefined {
    const service = this.#service
    if (!service.accepting) return this.#drop('draining')
    const { address, port } = service.shared.incoming.client(slot)
    if (service.isLoop(address, port)) return this.#drop('loop')
    const choice = service.admit(this.bind, address, identity)
    if (choice === undefined) return this.#drop('not-allowed')
    if (!service.takeDescriptor()) return this.#drop('no-fd')
    const flow = new UdpFlow(service, this, hash, identity, address, choice)
    this.flows.add(flow)
    service.begun(flow)
    const result = flow.move()
    return result === 'moved' ? flow : this.#drop(result)
  }

  #drop(reason: DropReason): undefined {
    this.counters.countDrop(reason)
  }

  /** After the last slot in a row whose client is the flow's. */
  #endOfRun(flow: UdpFlow, first: number, count: number): number {
    const { incoming } = this.#service.shared
    let end = first + 1
    while (
      end < count &&
      this.flows.isOf(flow, incoming, incoming.nameAt(end), this.#destinationAt(end))
    )
      end += 1
    return end
  }

  #destinationAt(slot: number): number {
    return this.#isWildcard ? this.#service.shared.incoming.destinationAt(slot) : -1
  }

  #identity(at: number, destination: number): Identity {
    const { words } = this.#service.shared.incoming
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
    this.#service.shared.sockets.rest(this.fd)
    this.#failures += 1
    // A shortage passes. What doesn't is reported, ever less often.
    if (this.#failures < this.#reportedAt) return
    this.#reportedAt *= 10
    this.#service.fault(systemError('recvmmsg of a UDP socket', result))
  }
}
