import { createSocket, type Socket } from 'node:dgram'
import type { Endpoint } from '../services.ts'
import { type ErrorCounts, errorName } from './load.ts'

/** A datagram that has not come back for so many sweeps is lost. */
export const lostAfterSweeps = 10
/** The turn, the slot and the flow; the rest is the same in every turn. */
export const headerBytes = 8

export interface UdpFlowPlan {
  readonly to: Endpoint
  readonly index: number
  /** At least 8. */
  readonly bytes: number
  readonly window: number
  readonly unconnected?: true
}

/** A place in a flow's window, with the datagram that is sent there turn after turn. */
interface Slot {
  readonly datagram: Buffer
  turn: number
  sentInSweep: number
}

export class UdpFlow {
  echoes = 0
  readonly #socket: Socket
  readonly #slots: readonly Slot[]
  readonly #bytes: number
  readonly #errors: ErrorCounts
  /** Where each datagram goes, as it is not known to the socket. */
  readonly #to: Endpoint | undefined
  #isReady = false
  #isClosed = false
  #sweep = 0

  constructor(plan: UdpFlowPlan, errors: ErrorCounts) {
    const { to, index, bytes, window, unconnected } = plan
    this.#bytes = checkedBytes(bytes)
    this.#errors = errors
    this.#slots = Array.from({ length: window }, (_, slot) => newSlot(bytes, index, slot))
    this.#socket = createSocket(to.address.includes(':') ? 'udp6' : 'udp4')
    this.#socket.on('error', error => {
      if (!this.#isClosed) errors.add(errorName(error))
    })
    this.#socket.on('message', message => this.#cameBack(message))
    this.#to = unconnected ? to : undefined
    const start = (): void => {
      if (this.#isClosed) return
      this.#isReady = true
      for (const slot of this.#slots) this.#send(slot)
    }
    this.#socket.once(unconnected ? 'listening' : 'connect', start)
    if (unconnected) this.#socket.bind()
    // Connected once, so that no datagram needs an address looked at.
    else this.#socket.connect(to.port, to.address)
  }

  replaceLost(): void {
    if (!this.#isReady) return
    this.#sweep += 1
    for (const slot of this.#slots) {
      if (this.#sweep - slot.sentInSweep < lostAfterSweeps) continue
      this.#errors.add('lost')
      this.#send(slot)
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await new Promise<void>(resolve => {
      this.#socket.close(resolve)
    })
  }

  #send(slot: Slot): void {
    slot.turn = (slot.turn + 1) >>> 0
    slot.sentInSweep = this.#sweep
    slot.datagram.writeUInt32BE(slot.turn)
    // Without a callback: what can't be sent does not come back, and counts as lost.
    const to = this.#to
    if (to === undefined) this.#socket.send(slot.datagram)
    else this.#socket.send(slot.datagram, to.port, to.address)
  }

  #cameBack(message: Buffer): void {
    const slot = this.#slots[((message[4] ?? 0) << 8) | (message[5] ?? 0)]
    if (slot === undefined || message.length !== this.#bytes)
      return this.#errors.add('wrong response')
    if (!message.equals(slot.datagram)) {
      const isEarlier = message.subarray(4).equals(slot.datagram.subarray(4))
      return this.#errors.add(isEarlier ? 'late or twice' : 'wrong response')
    }
    this.echoes += 1
    this.#send(slot)
  }
}

const newSlot = (bytes: number, flow: number, slot: number): Slot => ({
  datagram: newDatagram(bytes, flow, slot),
  turn: 0,
  sentInSweep: 0,
})

/** The first four bytes are for the turn. */
export const newDatagram = (bytes: number, flow: number, slot: number): Buffer => {
  const datagram = Buffer.alloc(bytes, `flow ${flow} slot ${slot} `)
  datagram.writeUInt32BE(0)
  datagram.writeUInt16BE(slot, 4)
  datagram.writeUInt16BE(flow % 65_536, 6)
  return datagram
}

/** Throws when there is no room for what tells one datagram from another. */
export const checkedBytes = (bytes: number): number => {
  if (bytes >= headerBytes) return bytes
  throw new Error(`datagrams of ${bytes} bytes: at least ${headerBytes}`)
}
