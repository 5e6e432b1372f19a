import type { Bind, RelayEndpoint, RelayListener } from '../relay/relay.ts'
import { familyOf, isWildcard, joinHostPort, wildcardOf } from '../util/ip.ts'

/** By endpoint key, the id of the listener to which that endpoint leads. */
export type Edges = ReadonlyMap<string, string>

/**
 * Which listeners have addresses of other listeners for endpoints, for one protocol. Kept
 * up to date by what changes: endpoints are many, and hardly any is such an address.
 */
export class EdgeIndex {
  readonly #isLocal: (address: string) => boolean
  /** Ids by address and port. */
  readonly #byBind = new Map<string, string>()
  /** Ids of the listeners that have endpoints at a port. */
  readonly #byPort = new Map<number, Set<string>>()

  /** `isLocal`: whether an address is this host's, for listeners on a wildcard. */
  constructor(isLocal: (address: string) => boolean) {
    this.#isLocal = isLocal
  }

  add(listener: RelayListener): void {
    const { id } = listener
    for (const bind of bindsOf(listener)) this.#byBind.set(keyOf(bind), id)
    for (const port of endpointPorts(listener)) {
      const ids = this.#byPort.get(port)
      if (ids === undefined) this.#byPort.set(port, new Set([id]))
      else ids.add(id)
    }
  }

  /** To be called with the object that was added. */
  remove(listener: RelayListener): void {
    const { id } = listener
    for (const bind of bindsOf(listener)) {
      const key = keyOf(bind)
      if (this.#byBind.get(key) === id) this.#byBind.delete(key)
    }
    for (const port of endpointPorts(listener)) {
      const ids = this.#byPort.get(port)
      ids?.delete(id)
      if (ids?.size === 0) this.#byPort.delete(port)
    }
  }

  hasBind(bind: Bind): boolean {
    return this.#byBind.has(keyOf(bind))
  }

  /** Ids of the listeners that may have an endpoint at one of `binds`. */
  candidates(binds: readonly Bind[]): ReadonlySet<string> {
    const found = new Set<string>()
    for (const port of new Set(binds.map(({ port: one }) => one))) {
      for (const id of this.#byPort.get(port) ?? []) found.add(id)
    }
    return found
  }

  edgesOf({ endpoints }: RelayListener): Edges {
    const edges = new Map<string, string>()
    for (const endpoint of endpoints) {
      const target = this.#target(endpoint)
      if (target !== undefined) edges.set(endpoint.key, target)
    }
    return edges
  }

  #target({ key, address, port }: RelayEndpoint): string | undefined {
    const exact = this.#byBind.get(key)
    if (exact !== undefined) return exact
    const wildcard = wildcardOf(familyOf(address) ?? 'IPv4')
    const wild = this.#byBind.get(joinHostPort(wildcard, port))
    return wild !== undefined && this.#isLocal(address) ? wild : undefined
  }
}

/** All addresses that lead to a listener. */
export const bindsOf = ({ fronts, steered = [] }: RelayListener): readonly Bind[] => [
  ...fronts.flatMap(({ binds }) => binds),
  ...steered,
]

/** The same form as `RelayEndpoint.key`, and of a unix socket without who may connect. */
const keyOf = ({ address, port }: Bind): string =>
  joinHostPort(
    isWildcard(address) ? wildcardOf(familyOf(address) ?? 'IPv4') : address,
    port,
  )

const endpointPorts = ({ endpoints }: RelayListener): ReadonlySet<number> =>
  new Set(endpoints.map(({ port }) => port))
