import type { ServicePort } from '../../model/snapshot.ts'
import type { StoppableTools } from '../run-tool.ts'
import { servedUdp } from './served-udp.ts'
import { staleUdp, type StaleUdpDeps } from './stale-udp.ts'

export interface UdpEndsDeps {
  readonly tools: Pick<StoppableTools, 'run' | 'stop'>
  /** '' when nothing of UDP may stay where it should not. */
  readonly failed: (why: string) => void
}

/** Ends connected UDP sockets as their endpoints go, one look at the sockets of all namespaces after the other. */
export class UdpEnds {
  readonly #deps: UdpEndsDeps
  /** ServicePorts as they were led last; empty when that is not known. */
  #led: readonly ServicePort[] = []
  #underWay: Promise<void> = Promise.resolve()
  #error = ''
  #isStopped = false

  constructor(deps: UdpEndsDeps) {
    this.#deps = deps
  }

  /** Why sockets may stay where they should not; '' for no reason. */
  get error(): string {
    return this.#error
  }

  /**
   * Ends those that are not to stay where they are, now that `led` is in the tables. Not awaited:
   * there may be hundreds of network namespaces to look at.
   */
  end(
    led: readonly ServicePort[],
    nodeAddresses: readonly string[],
    reverse: StaleUdpDeps['reverse'],
  ): void {
    const { tools, failed } = this.#deps
    const served = servedUdp(this.#led, led, nodeAddresses)
    this.#led = led
    if (served.size === 0) return
    const ends = staleUdp({
      run: tools.run,
      reverse: () => (this.#isStopped ? [] : reverse()),
    })
    const before = this.#underWay
    const end = async (): Promise<void> => {
      await before
      const why = await ends.end(served)
      if (this.#isStopped) return
      // The next one tries all again.
      if (why.length > 0) this.#led = []
      this.#error = why.join('; ')
      failed(this.#error)
    }
    this.#underWay = end()
  }

  /** What is led from now on was not led before. */
  forget(): void {
    this.#led = []
  }

  /** Its tools are ended. */
  async stop(): Promise<void> {
    this.#isStopped = true
    await this.#deps.tools.stop()
    await this.#underWay
  }
}
