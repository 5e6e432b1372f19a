import { FlowLimits, type LimitedFlow } from '../../flow-limits.ts'
import type { WorkerEnv } from '../worker/worker-backend.ts'
import { DatagramBatch, slots } from './datagram-batch.ts'
import { FlowMoves } from './flow-moves.ts'
import { KeptDatagrams } from './kept-datagrams.ts'
import { ReplyQueue } from './reply-queue.ts'
import { TurnShare } from './turn-share.ts'
import { UdpSockets } from './udp-sockets.ts'

/** A flow, as the limits of all see it. */
export interface WorkerFlow extends LimitedFlow<WorkerFlow> {
  /** With which its client's first datagram came; 0: not looked for. */
  readonly ttl: number
  /** As `close`, but its descriptor stays taken from the budget, for the caller. */
  giveWay(): void
}

/** What the UDP listeners of a worker have in common. */
export interface UdpShared {
  readonly sockets: UdpSockets
  readonly limits: FlowLimits<WorkerFlow>
  /** What has just been received from clients. */
  readonly incoming: DatagramBatch
  readonly incomingShare: TurnShare
  readonly replies: ReplyQueue
  readonly kept: KeptDatagrams
  readonly moves: FlowMoves
}

/** To be made once per worker. */
export const newUdpShared = (env: WorkerEnv): UdpShared => {
  const { calls, loop, limits } = env
  const replies = new ReplyQueue(calls)
  const incomingShare = new TurnShare(slots)
  loop.afterTurn(() => {
    replies.endTurn()
    incomingShare.renew()
  })
  return {
    sockets: new UdpSockets(env),
    limits: new FlowLimits(loop.clock, limits),
    incoming: new DatagramBatch(calls, true),
    incomingShare,
    replies,
    kept: new KeptDatagrams(calls),
    moves: new FlowMoves(loop),
  }
}
