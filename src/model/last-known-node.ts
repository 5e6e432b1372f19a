import { isDeepStrictEqual } from 'node:util'
import type { Node } from './service.ts'
import type { Problem } from './snapshot.ts'

/**
 * What is known of the Node this runs on. What the source does not say any more, of a Node that
 * it has no more or of one family's addresses, stays as it was: without it more of the node would be
 * open, and its own pods would count as outsiders. A problem for each, for as long as it lasts.
 */
export class LastKnownNode {
  #node: Node | undefined
  #problems: readonly Problem[] = []

  /** As of the last `take`; undefined while there was none. */
  get node(): Node | undefined {
    return this.#node
  }

  get problems(): readonly Problem[] {
    return this.#problems
  }

  /** As the source has it now. */
  take(now: Node | undefined): void {
    const before = this.#node
    const [addresses, goneAddresses] = kept(before?.addresses, now?.addresses)
    const [podCIDRs, goneCIDRs] = kept(before?.podCIDRs, now?.podCIDRs)
    const { name = '' } = before ?? {}
    const found: readonly [field: string, gone: readonly string[]][] =
      now === undefined && before !== undefined
        ? [['', [`its zone ${before.zone || '(none)'}`, ...goneAddresses, ...goneCIDRs]]]
        : [
            ['status.addresses', goneAddresses],
            ['spec.podCIDRs', goneCIDRs],
          ]
    const problems = found.flatMap(([field, gone]) => {
      const message = `is not there any more; as last known it is still taken for: ${gone.join(', ')}`
      return gone.length === 0 ? [] : { object: `Node ${name}`, field, message }
    })
    // The same list while nothing of it changed.
    if (!isDeepStrictEqual(problems, this.#problems)) this.#problems = problems
    const node = now ?? before
    this.#node = node && { ...node, addresses, podCIDRs }
  }
}

/** With those of before of a family that has none now, and these alone. */
const kept = (
  before: readonly string[] = [],
  now: readonly string[] = [],
): [all: readonly string[], gone: readonly string[]] => {
  const isGone = (one: string) =>
    !now.some(other => other.includes(':') === one.includes(':'))
  const gone = before.filter(isGone)
  return [[...now, ...gone], gone]
}
