import type { WorkerEnv } from '../worker/worker-env.ts'
import { DatagramBatch, slots } from './datagram-batch.ts'
import { FlowLimits } from './flow-limits.ts'
import { FlowSockets } from './flow-sockets.ts'
import { KeptDatagrams } from './kept-datagrams.ts'
import { ReplyQueue } from './reply-queue.ts'
import { TurnShare } from './turn-share.ts'
import { WatchedSockets } from './watched-sockets.ts'

/** What the UDP listeners of a worker have in common. */
export interface UdpShared {
  readonly watched: WatchedSockets
  readonly sockets: FlowSockets
  readonly limits: FlowLimits
  /** What has just been received from clients. */
  readonly incoming: DatagramBatch
  readonly incomingShare: TurnShare
  readonly replies: ReplyQueue
  readonly kept: KeptDatagrams
}

/** To be made once per worker. */
export const newUdpShared = ({ calls, loop, limits, fds }: WorkerEnv): UdpShared => {
  const replies = new ReplyQueue(calls)
  const incomingShare = new TurnShare(slots)
  loop.afterTurn(() => {
    replies.endTurn()
    incomingShare.renew()
  })
  return {
    watched: new WatchedSockets(loop),
    sockets: new FlowSockets(calls, fds),
    limits: new FlowLimits(loop.clock, limits, fds.spendable),
    incoming: new DatagramBatch(calls, true),
    incomingShare,
    replies,
    kept: new KeptDatagrams(calls),
  }
}
