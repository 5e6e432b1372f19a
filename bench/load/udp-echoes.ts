import { setImmediate } from 'node:timers/promises'
import { ErrorCounts, type Load } from './load.ts'
import type { UdpEchoes } from './question.ts'
import { UdpFlow } from './udp-flow.ts'

/** How often losses are looked for. */
export const sweepMs = 50

/**
 * Datagrams to an echo, over so many flows with a socket each, and so many of each on
 * their way at any time: the closed loop keeps queues short, so a loss is the target's
 * doing. A lost datagram is counted and replaced.
 */
export class UdpEchoesLoad implements Load {
  readonly errors = new ErrorCounts()
  readonly #flows: readonly UdpFlow[]
  readonly #sweeper: NodeJS.Timeout

  constructor({ flows, ...plan }: Omit<UdpEchoes, 'kind'>) {
    this.#flows = Array.from(
      { length: flows },
      (_, index) => new UdpFlow({ ...plan, index }, this.errors),
    )
    this.#sweeper = setInterval(() => {
      for (const flow of this.#flows) flow.replaceLost()
    }, sweepMs)
  }

  done(): number {
    return this.#flows.reduce((sum, { echoes }) => sum + echoes, 0)
  }

  async stop(): Promise<void> {
    clearInterval(this.#sweeper)
    await Promise.all(this.#flows.map(flow => flow.close()))
    // libuv lets go of a socket at the end of a turn, after what is immediate in it.
    await setImmediate()
    await setImmediate()
  }
}
