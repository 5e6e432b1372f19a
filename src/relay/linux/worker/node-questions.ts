import type { Clock } from '../../../util/clock.ts'

/** As `NodeClients` remembers what it has read. */
const rememberMs = 5000
const mostRemembered = 16_384

interface Answer {
  readonly isFromNode: boolean
  readonly at: number
}

/**
 * Which clients are on this node, asked of the main thread and remembered for 5 s. Needed
 * only where externalTrafficPolicy makes a difference between clients.
 */
export class NodeQuestions {
  readonly #clock: Pick<Clock, 'now'>
  readonly #ask: (address: string) => void
  readonly #known = new Map<string, Answer>()
  readonly #waiting = new Map<string, (() => void)[]>()

  constructor(clock: Pick<Clock, 'now'>, ask: (address: string) => void) {
    this.#clock = clock
    this.#ask = ask
  }

  /** Undefined while it is not known; see `whenKnown`. */
  isFromNode(address: string): boolean | undefined {
    const answer = this.#known.get(address)
    if (answer === undefined) return undefined
    if (this.#clock.now() - answer.at < rememberMs) return answer.isFromNode
    this.#known.delete(address)
    return undefined
  }

  /** Asks, unless somebody has, and calls `callback` when `isFromNode` knows. */
  whenKnown(address: string, callback: () => void): void {
    const waiting = this.#waiting.get(address)
    if (waiting !== undefined) {
      waiting.push(callback)
      return
    }
    this.#waiting.set(address, [callback])
    this.#ask(address)
  }

  /** The main thread has answered. */
  answered(address: string, isFromNode: boolean): void {
    if (this.#known.size >= mostRemembered) this.#known.clear()
    this.#known.set(address, { isFromNode, at: this.#clock.now() })
    const waiting = this.#waiting.get(address) ?? []
    this.#waiting.delete(address)
    for (const callback of waiting) callback()
  }
}
