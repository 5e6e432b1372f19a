import type { Answer, Route } from './admin-routes.ts'

type Pages = readonly Buffer[]

interface UnderWay {
  readonly bytes: number
  /** Each cuts the answer of one reader. */
  readonly cuts: Set<() => void>
}

/**
 * The answers of one server that are being made or sent. The status of 10 000 ServicePorts
 * has 20 MB, and a client may read slowly: requests that come while an answer is made get
 * the same one, and while more than `mostBytes` are under way the oldest answers are cut.
 */
export class AnswersUnderWay {
  readonly #mostBytes: number
  readonly #making = new Map<Route, Map<string, Promise<Answer>>>()
  /** Oldest first. */
  readonly #sent = new Map<Pages, UnderWay>()
  #bytes = 0

  constructor(mostBytes: number) {
    this.#mostBytes = mostBytes
  }

  /** `given`: what the route goes by, of a request. */
  of(route: Route, given: string, client: string): Answer | Promise<Answer> {
    const making = this.#making.get(route) ?? new Map<string, Promise<Answer>>()
    const same = making.get(given)
    if (same !== undefined) return same
    const answer = route.answer(given, client)
    if (!(answer instanceof Promise)) return answer
    const made = answer.finally(() => making.delete(given))
    making.set(given, made)
    this.#making.set(route, making)
    return made
  }

  /** Sending begins; gives what is to be called at its end. `cut` ends it early. */
  sending(pages: Pages, cut: () => void): () => void {
    const bytes = pages.reduce((sum, page) => sum + page.length, 0)
    const one = this.#sent.get(pages) ?? { bytes, cuts: new Set() }
    if (one.cuts.size === 0) {
      this.#sent.set(pages, one)
      this.#bytes += bytes
    }
    one.cuts.add(cut)
    this.#cutOthers(pages)
    return () => {
      if (one.cuts.delete(cut) && one.cuts.size === 0) this.#forget(pages, one)
    }
  }

  #cutOthers(newest: Pages): void {
    for (const [pages, one] of this.#sent) {
      if (this.#bytes <= this.#mostBytes || pages === newest) return
      this.#forget(pages, one)
      for (const cut of one.cuts) cut()
      one.cuts.clear()
    }
  }

  #forget(pages: Pages, { bytes }: UnderWay): void {
    this.#sent.delete(pages)
    this.#bytes -= bytes
  }
}
