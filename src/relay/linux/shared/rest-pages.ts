import { allClients, type Doubts, noDoubts } from '../../../balance/doubts.ts'
import { noReplies, type Replies } from '../../../balance/replies.ts'
import { noRest, type Rest } from '../../../balance/resting.ts'
import { noRecovery, type Recovery } from '../../../balance/slow-start.ts'
import { readState, renewState, SharedCell, type StateBits } from './shared-cell.ts'
import { SlotPages } from './slot-pages.ts'

const probedBit = 1 << 6
const restTimeUnit = 1 << 7

/** From the low end 6 bits of failures, 1 whether it is probed, 41 of the time: 69 years of uptime. */
const restBits: StateBits<Rest> = {
  none: noRest,
  pack: ({ until, failures, isProbed }) =>
    Math.ceil(until) * restTimeUnit + (isProbed ? probedBit : 0) + failures,
  unpack: bits => ({
    until: Math.floor(bits / restTimeUnit),
    failures: bits % probedBit,
    isProbed: bits % restTimeUnit >= probedBit,
  }),
}

const answeredBit = 1 << 2
const weightUnit = 1 << 3
const replyTimeUnit = 1 << 6

/** From the low end 2 bits of the count, 1 whether it has answered, 3 of the weight, 42 of the time. */
const replyBits: StateBits<Replies> = {
  none: noReplies,
  pack: ({ unanswered, since, hasAnswered, weight }) =>
    Math.floor(since) * replyTimeUnit +
    weight * weightUnit +
    (hasAnswered ? answeredBit : 0) +
    unanswered,
  unpack: bits => ({
    unanswered: bits % answeredBit,
    since: Math.floor(bits / replyTimeUnit),
    hasAnswered: bits % weightUnit >= answeredBit,
    weight: Math.floor((bits % replyTimeUnit) / weightUnit),
  }),
}

const doubtTimeUnit = allClients + 1
const doubtTimeMs = 128

/** From the low end 14 bits of clients, 34 of the time in units of 128 ms. */
const doubtBits: StateBits<Doubts> = {
  none: noDoubts,
  pack: ({ clients, since }) => Math.floor(since / doubtTimeMs) * doubtTimeUnit + clients,
  unpack: bits => ({
    clients: bits % doubtTimeUnit,
    since: Math.floor(bits / doubtTimeUnit) * doubtTimeMs,
  }),
}

const recoveryTimeUnit = 1 << 1

/** From the low end 1 bit whether it is up, and the time; never 0, as time is not. */
const recoveryBits: StateBits<Recovery> = {
  none: noRecovery,
  pack: ({ since, isUp }) =>
    since === 0 ? 0 : Math.ceil(since) * recoveryTimeUnit + (isUp ? 1 : 0),
  unpack: bits => ({
    since: Math.floor(bits / recoveryTimeUnit),
    isUp: bits % recoveryTimeUnit === 1,
  }),
}

/** Replies are of UDP, doubts of TCP. */
const cells = { rest: 0, replies: 1, doubts: 1, recovery: 2, count: 3 }

/** How the endpoints rest, answer and come back, by their slots: one state for all workers. */
export class RestPages extends SlotPages<BigInt64Array> {
  constructor() {
    super(cells.count, memory => new BigInt64Array(memory))
  }

  /** That of the endpoint which has the slot now. */
  of(slot: number): SharedCell<Rest> {
    return new SharedCell(restBits, this.pageOf(slot), this.offsetOf(slot) + cells.rest)
  }

  /** What came back from the endpoint which has the slot now. */
  repliesOf(slot: number): SharedCell<Replies> {
    const at = this.offsetOf(slot) + cells.replies
    return new SharedCell(replyBits, this.pageOf(slot), at)
  }

  /** Connections that the endpoint which has the slot now has not served. */
  doubtsOf(slot: number): SharedCell<Doubts> {
    return new SharedCell(
      doubtBits,
      this.pageOf(slot),
      this.offsetOf(slot) + cells.doubts,
    )
  }

  /** Whether the endpoint which has the slot now is down, or has just come back. */
  recoveryOf(slot: number): SharedCell<Recovery> {
    const at = this.offsetOf(slot) + cells.recovery
    return new SharedCell(recoveryBits, this.pageOf(slot), at)
  }

  read(slot: number): Rest {
    if (!this.has(slot)) return noRest
    return readState(restBits, this.pageOf(slot), this.offsetOf(slot) + cells.rest)
  }

  /** For the next endpoint of the slot. */
  renew(slot: number): void {
    const start = this.offsetOf(slot)
    for (let cell = 0; cell < cells.count; cell += 1) {
      renewState(this.pageOf(slot), start + cell)
    }
  }
}
