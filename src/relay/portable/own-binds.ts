import { isWildcard } from '../../util/ip.ts'
import { bindKey } from '../counters.ts'
import type { RelayListener } from '../relay.ts'

/**
 * The addresses of the relay's UDP listeners, counted: one that passes from one listener
 * to another is there all the while if it is added before it is removed.
 */
export class OwnBinds {
  readonly #counts = new Map<string, number>()

  has(address: string, port: number): boolean {
    return this.#counts.has(bindKey({ address, port }))
  }

  add(listener: RelayListener): void {
    for (const key of keysOf(listener)) {
      this.#counts.set(key, (this.#counts.get(key) ?? 0) + 1)
    }
  }

  remove(listener: RelayListener): void {
    for (const key of keysOf(listener)) {
      const left = (this.#counts.get(key) ?? 0) - 1
      if (left > 0) this.#counts.set(key, left)
      else this.#counts.delete(key)
    }
  }
}

const keysOf = ({ protocol, fronts }: RelayListener): readonly string[] => {
  if (protocol !== 'UDP') return []
  return fronts.flatMap(({ binds }) =>
    binds.filter(({ address }) => !isWildcard(address)).map(bindKey),
  )
}
