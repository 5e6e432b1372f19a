import { familyOf, isWildcard, wildcardOf } from '../util/ip.ts'
import type { NodeClientSet } from './node-clients.ts'
import { bindKey, type Bind, type RelayListener } from './relay.ts'

/**
 * The addresses that lead to the relay's UDP listeners, counted: one that passes from one
 * listener to another is there all the while if it is added before it is removed.
 */
export class OwnBinds {
  readonly #nodeClients: NodeClientSet
  readonly #counts = new Map<string, number>()

  /** `nodeClients`: from where node ports lead here. */
  constructor(nodeClients: NodeClientSet) {
    this.#nodeClients = nodeClients
  }

  has(address: string, port: number): boolean {
    if (this.#counts.has(bindKey({ address, port }))) return true
    const wildcard = wildcardOf(familyOf(address) ?? 'IPv4')
    return (
      this.#counts.has(bindKey({ address: wildcard, port })) &&
      this.#nodeClients.has(address)
    )
  }

  add(binds: readonly Bind[]): void {
    for (const bind of binds) {
      const key = bindKey(bind)
      this.#counts.set(key, (this.#counts.get(key) ?? 0) + 1)
    }
  }

  remove(binds: readonly Bind[]): void {
    for (const bind of binds) {
      const key = bindKey(bind)
      const left = (this.#counts.get(key) ?? 0) - 1
      if (left > 0) this.#counts.set(key, left)
      else this.#counts.delete(key)
    }
  }
}

/**
 * What a listener adds to them. Sockets on a wildcard are not among them: the relay has a
 * UDP socket for each address.
 */
export const ownBindsOf = ({
  protocol,
  fronts,
  steered = [],
}: RelayListener): readonly Bind[] => {
  if (protocol !== 'UDP') return []
  const bound = fronts.flatMap(({ binds }) =>
    binds.filter(({ address }) => !isWildcard(address)),
  )
  return [...bound, ...steered]
}
