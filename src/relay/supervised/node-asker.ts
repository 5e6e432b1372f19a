import type { Clock } from '../../util/clock.ts'

/** As `NodeClients` remembers what it has read. */
const rememberMs = 5000
const mostRemembered = 16_384
/** Questions that may wait for the parent: with more, clients count as outside ones. */
const mostWaiting = 4096

/** Asks the parent which clients are on this node, and remembers the answers for 5 s. */
export class NodeAsker {
  readonly #clock: Pick<Clock, 'now'>
  readonly #ask: (address: string) => void
  readonly #known = new Map<
    string,
    { readonly isFromNode: boolean; readonly at: number }
  >()
  readonly #waiting = new Map<string, ((isFromNode: boolean) => void)[]>()

  constructor(clock: Pick<Clock, 'now'>, ask: (address: string) => void) {
    this.#clock = clock
    this.#ask = ask
  }

  isFromNode(address: string): boolean | Promise<boolean> {
    const known = this.#recall(address)
    if (known !== undefined) return known
    const waiting = this.#waiting.get(address)
    if (waiting === undefined && this.#waiting.size >= mostWaiting) return false
    return new Promise(resolve => {
      if (waiting !== undefined) {
        waiting.push(resolve)
        return
      }
      this.#waiting.set(address, [resolve])
      this.#ask(address)
    })
  }

  answered(address: string, isFromNode: boolean): void {
    if (this.#known.size >= mostRemembered) this.#known.clear()
    this.#known.set(address, { isFromNode, at: this.#clock.now() })
    const waiting = this.#waiting.get(address) ?? []
    this.#waiting.delete(address)
    for (const resolve of waiting) resolve(isFromNode)
  }

  #recall(address: string): boolean | undefined {
    const answer = this.#known.get(address)
    if (answer === undefined) return undefined
    if (this.#clock.now() - answer.at < rememberMs) return answer.isFromNode
    this.#known.delete(address)
    return undefined
  }
}
