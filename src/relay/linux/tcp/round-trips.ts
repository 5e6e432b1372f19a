import { IPPROTO_TCP, TCP_INFO } from '../constants.ts'
import type { NativeMemory } from '../native-memory.ts'
import { tcpInfo } from '../struct-layout.ts'
import type { WorkerEnv } from '../worker/worker-env.ts'
import type { Connection } from './connection.ts'

/** An endpoint's connections are asked for their round-trip time so often at most. */
const sampleMs = 1000

/** Notes the round-trip times of endpoints, as the kernel has them of a connection (TCP_INFO). */
export class RoundTrips {
  readonly #env: WorkerEnv
  readonly #answer: NativeMemory

  constructor(env: WorkerEnv) {
    this.#env = env
    this.#answer = env.calls.allocate(tcpInfo.size + 8)
  }

  /** Of a connection's endpoint, unless that was just done. `isLast`: the connection ends. */
  sample({ endpoint, backend }: Connection, isLast: boolean): void {
    const { now } = this.#env.loop
    if (endpoint === undefined || now - endpoint.sampledAt < sampleMs) return
    const { address, words, view } = this.#answer
    const length = tcpInfo.size
    words[length / 4] = length
    const asked = this.#env.calls.getsockopt(
      backend.fd,
      IPPROTO_TCP,
      TCP_INFO,
      address,
      address + length,
    )
    if (asked < 0) return
    // Of one that goes on they would be counted again.
    const again = isLast ? view.getUint32(tcpInfo.totalRetransmits, true) : 0
    endpoint.sampled(now, view.getUint32(tcpInfo.rtt, true), again)
  }
}
