import { Agent, get } from 'node:http'
import { unixNow } from './usher.ts'

const everyMs = 5

/**
 * Asks for /livez again and again: how long a tiny request takes is how long connections
 * wait for the event loop, seen from outside.
 */
export class Livez {
  readonly #url: string
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 })
  readonly #timer: NodeJS.Timeout
  #waiting = false
  #tookMs: number[] = []
  #firstAt: number | undefined

  /** @param address - `host:port`; it need not listen yet */
  constructor(address: string) {
    this.#url = `http://${address}/livez`
    this.#timer = setInterval(() => void this.#ask(), everyMs)
  }

  /** Unix milliseconds of the first answer. */
  get firstAt(): number | undefined {
    return this.#firstAt
  }

  /** Milliseconds of each answer since the last call. */
  take(): readonly number[] {
    const took = this.#tookMs
    this.#tookMs = []
    return took
  }

  close(): void {
    clearInterval(this.#timer)
    this.#agent.destroy()
  }

  async #ask(): Promise<void> {
    if (this.#waiting) return
    this.#waiting = true
    const startedAt = performance.now()
    if (await answers(this.#url, this.#agent)) {
      this.#firstAt ??= unixNow()
      this.#tookMs.push(performance.now() - startedAt)
    }
    this.#waiting = false
  }
}

const answers = (url: string, agent: Agent): Promise<boolean> =>
  new Promise(resolve => {
    get(url, { agent }, response => {
      response.resume().once('end', () => resolve(true))
    }).once('error', () => resolve(false))
  })
