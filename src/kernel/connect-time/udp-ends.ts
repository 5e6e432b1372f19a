import type { StoppableTools } from '../run-tool.ts'
import { type Led, losesUdp, servedUdp } from './served-udp.ts'
import { staleUdp, type StaleUdpDeps } from './stale-udp.ts'

export interface UdpEndsDeps {
  readonly tools: Pick<StoppableTools, 'run' | 'stop'>
  /** '' when nothing of UDP may stay where it should not. */
  readonly failed: (why: string) => void
}

const nothing: Led = { servicePorts: [], nodeAddresses: [] }

/** Ends connected UDP sockets as their endpoints go, one look at the sockets of all namespaces after the other. */
export class UdpEnds {
  readonly #deps: UdpEndsDeps
  /** What was led by last; nothing when that is not known. */
  #led = nothing
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
  end(led: Led, reverse: StaleUdpDeps['reverse']): void {
    const { tools, failed } = this.#deps
    const before = this.#led
    this.#led = led
    if (!losesUdp(before, led)) return
    const served = servedUdp(led)
    const ends = staleUdp({
      run: tools.run,
      reverse: () => (this.#isStopped ? [] : reverse()),
    })
    const earlier = this.#underWay
    const end = async (): Promise<void> => {
      await earlier
      const why = await ends.end(served)
      if (this.#isStopped) return
      // The next one tries all again.
      if (why.length > 0) this.#led = nothing
      this.#error = why.join('; ')
      failed(this.#error)
    }
    this.#underWay = end()
  }

  /** What is led from now on was not led before. */
  forget(): void {
    this.#led = nothing
  }

  /** Its tools are ended. */
  async stop(): Promise<void> {
    this.#isStopped = true
    await this.#deps.tools.stop()
    await this.#underWay
  }
}
