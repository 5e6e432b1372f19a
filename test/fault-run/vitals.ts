import type { ProxyProcess } from './proxy-process.ts'

/** How the process was, at its worst. */
export interface Vitals {
  /** Milliseconds that `/livez` took. */
  readonly slowestLivezMs: number
  /** Bytes. */
  readonly memory: number
  /** Milliseconds that the event loop was late, by Usher's own metric. */
  readonly loopDelayMs: number
}

/** Longer than this `/livez` must never take, in milliseconds. */
const livezMs = 1000

/** Asks `/livez` all the time, and looks at memory and event loop each second. */
export class VitalsWatch {
  readonly #proxy: ProxyProcess
  readonly #wrong: (complaint: string) => void
  readonly #vitals = { slowestLivezMs: 0, memory: 0, loopDelayMs: 0 }
  readonly #done: Promise<unknown>
  #running = true

  constructor(proxy: ProxyProcess, wrong: (complaint: string) => void) {
    this.#proxy = proxy
    this.#wrong = wrong
    this.#done = Promise.all([
      this.#each(200, () => this.#livez()),
      this.#each(1000, () => this.#measure()),
    ])
  }

  async end(): Promise<Vitals> {
    this.#running = false
    await this.#done
    return this.#vitals
  }

  async #each(ms: number, look: () => Promise<void>): Promise<void> {
    while (this.#running) {
      if (this.#proxy.ended !== '') return this.#wrong(this.#proxy.ended)
      try {
        await look()
      } catch (error) {
        this.#wrong(`asked how it is: ${String(error)}`)
      }
      await new Promise(resolve => setTimeout(resolve, ms))
    }
  }

  async #livez(): Promise<void> {
    const startedAt = performance.now()
    // What this process was busy with itself does not count.
    const busy = performance.eventLoopUtilization()
    const code = await this.#proxy.health('/livez')
    const { active } = performance.eventLoopUtilization(busy)
    const ms = Math.max(0, performance.now() - startedAt - active)
    this.#vitals.slowestLivezMs = Math.max(this.#vitals.slowestLivezMs, ms)
    if (code !== 200) this.#wrong(`/livez said ${code}`)
    if (ms > livezMs) this.#wrong(`/livez took ${Math.round(ms)} ms`)
  }

  async #measure(): Promise<void> {
    const { most } = this.#proxy.memory()
    const [, seconds = '0'] = worstDelay.exec(await this.#proxy.metrics()) ?? []
    this.#vitals.memory = most
    this.#vitals.loopDelayMs = Math.max(this.#vitals.loopDelayMs, Number(seconds) * 1000)
  }
}

const worstDelay = /^usher_event_loop_delay_seconds\{quantile="1"\} (\S+)$/m
