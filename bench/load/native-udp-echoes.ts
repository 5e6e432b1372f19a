import { performance } from 'node:perf_hooks'
import { ErrorCounts, errorName, type Load } from './load.ts'
import { type FlowMemory, NativeUdpFlow } from './native-udp-flow.ts'
import type { UdpEchoes } from './question.ts'
import { sweepMs } from './udp-echoes.ts'
import { checkedBytes } from './udp-flow.ts'
import { MessageBatch } from '../message-batch.ts'
import {
  EPOLLIN,
  EventLoop,
  type EventSource,
  type NativeCalls,
} from '../native-calls.ts'

const batch = 64
/** Node's own loop has timers and questions to look after. */
const turnMs = 1

/** As `UdpEchoesLoad`, for targets that a generator of dgram sockets can't keep busy. */
export class NativeUdpEchoesLoad implements Load {
  readonly errors = new ErrorCounts()
  readonly #loop: EventLoop
  readonly #flows: readonly NativeUdpFlow[]
  readonly #sweeper: NodeJS.Timeout
  #turn: NodeJS.Immediate

  constructor(plan: Omit<UdpEchoes, 'kind'>, { calls, layout }: NativeCalls) {
    const { flows, bytes } = plan
    checkedBytes(bytes)
    this.#loop = new EventLoop(calls, layout, () => performance.now())
    const source: EventSource<NativeUdpFlow> = {
      ready: flow => flow.receive(),
      failed: (_flow, error) => this.errors.add(errorName(error)),
    }
    const memory = flowMemory(calls, plan)
    this.#flows = Array.from({ length: flows }, (_, index) => {
      const flow = new NativeUdpFlow({ ...plan, index }, memory, this.errors)
      if (flow.fd >= 0) this.#loop.add(flow.fd, source, flow, EPOLLIN)
      return flow
    })
    for (const flow of this.#flows) if (flow.fd >= 0) flow.start()
    this.#sweeper = setInterval(() => {
      for (const flow of this.#flows) if (flow.fd >= 0) flow.replaceLost()
    }, sweepMs)
    this.#turn = setImmediate(() => this.#takeTurn())
  }

  done(): number {
    return this.#flows.reduce((sum, { echoes }) => sum + echoes, 0)
  }

  async stop(): Promise<void> {
    clearInterval(this.#sweeper)
    clearImmediate(this.#turn)
    for (const flow of this.#flows) flow.close()
    this.#loop.close()
  }

  #takeTurn(): void {
    this.#loop.turn(turnMs)
    this.#turn = setImmediate(() => this.#takeTurn())
  }
}

/** A byte more than is expected tells a longer datagram. */
const flowMemory = (
  calls: NativeCalls['calls'],
  { bytes, to, ...plan }: Omit<UdpEchoes, 'kind'>,
): FlowMemory => {
  const unconnected = plan.unconnected === true
  const room = bytes + 1
  const arrived = calls.allocate(batch * room)
  const received = new MessageBatch(calls, batch, unconnected)
  for (let at = 0; at < batch; at += 1)
    received.put(at, arrived.address + at * room, room)
  const sent = new MessageBatch(calls, batch, unconnected)
  if (unconnected) sent.sendTo(to.address, to.port)
  return { calls, arrived, room, received, sent, unconnected }
}
