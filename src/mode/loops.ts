import type { RelayProtocol } from '../model/service.ts'
import type { Bind, RelayEndpoint, RelayListener } from '../relay/relay.ts'
import { listDiff, forEachYielding } from '../util/list-diff.ts'
import { familyOf, isWildcard, joinHostPort, wildcardOf } from '../util/ip.ts'

/** An endpoint that was left out because it leads back to its own listener. */
export interface Loop {
  readonly listener: RelayListener
  readonly endpoint: RelayEndpoint
}

export interface WithoutLoops {
  readonly listeners: readonly RelayListener[]
  readonly loops: readonly Loop[]
}

interface Cut {
  readonly from: RelayListener
  readonly keys: ReadonlySet<string>
  readonly listener: RelayListener
}

const protocols: readonly RelayProtocol[] = ['TCP', 'UDP']

/**
 * Leaves out the endpoints through which a connection or datagram would come back to a
 * listener that it has passed: it would go round until descriptors run out. A Service may
 * have another one's VIP for an endpoint; only what closes a ring goes.
 *
 * Costs what changed since the last time; a listener that did not is the same object.
 */
export class LoopCutter {
  readonly #indexes: Readonly<Record<RelayProtocol, EdgeIndex>>
  readonly #byId = new Map<string, RelayListener>()
  #listeners: readonly RelayListener[] = []
  /** Of the listeners that have any. */
  readonly #edges = new Map<string, Edges>()
  #cuts: ReadonlyMap<string, Cut> = new Map()

  /** `isLocal`: whether an address is this host's, for listeners on a wildcard. */
  constructor(isLocal: (address: string) => boolean) {
    this.#indexes = { TCP: new EdgeIndex(isLocal), UDP: new EdgeIndex(isLocal) }
  }

  async cut(listeners: readonly RelayListener[]): Promise<WithoutLoops> {
    const { before, after } = listDiff(this.#listeners, listeners)
    const wanted = new Set(after.map(({ id }) => id))
    const gone = before.filter(({ id }) => !wanted.has(id))
    const changed = after.filter(listener => this.#byId.get(listener.id) !== listener)
    const stale = await this.#reindex(gone, changed)
    await forEachYielding(stale, id => this.#link(id))
    this.#listeners = listeners
    this.#cuts = this.#cutRings()
    if (this.#cuts.size === 0) return { listeners, loops: [] }
    return {
      listeners: listeners.map(one => this.#cuts.get(one.id)?.listener ?? one),
      loops: [...this.#cuts.values()].flatMap(loopsOf),
    }
  }

  /** Answers the ids of the listeners whose edges may have changed with that. */
  async #reindex(
    gone: readonly RelayListener[],
    changed: readonly RelayListener[],
  ): Promise<ReadonlySet<string>> {
    const moved = new Set([...gone, ...changed].map(({ id }) => id))
    const stale = new Set(moved)
    for (const [id, edges] of this.#edges) {
      for (const target of edges.values()) if (moved.has(target)) stale.add(id)
    }
    const fresh: Record<RelayProtocol, Bind[]> = { TCP: [], UDP: [] }
    await forEachYielding(changed, listener => {
      const index = this.#indexes[listener.protocol]
      for (const bind of bindsOf(listener)) {
        if (!index.hasBind(bind)) fresh[listener.protocol].push(bind)
      }
    })
    await forEachYielding(moved, id => {
      const old = this.#byId.get(id)
      if (old !== undefined) this.#indexes[old.protocol].remove(old)
      this.#byId.delete(id)
    })
    await forEachYielding(changed, listener => {
      this.#byId.set(listener.id, listener)
      this.#indexes[listener.protocol].add(listener)
    })
    for (const protocol of protocols) {
      for (const id of this.#indexes[protocol].candidates(fresh[protocol])) stale.add(id)
    }
    return stale
  }

  #link(id: string): void {
    const listener = this.#byId.get(id)
    const edges = listener && this.#indexes[listener.protocol].edgesOf(listener)
    if (edges === undefined || edges.size === 0) this.#edges.delete(id)
    else this.#edges.set(id, edges)
  }

  #cutRings(): ReadonlyMap<string, Cut> {
    const cuts = new Map<string, Cut>()
    for (const [id, keys] of cutRings(this.#edges)) {
      const from = this.#byId.get(id)
      if (from === undefined) continue
      const before = this.#cuts.get(id)
      const same = before?.from === from && sameKeys(before.keys, keys)
      cuts.set(id, same ? before : cutOf(from, keys))
    }
    return cuts
  }
}

const sameKeys = (a: ReadonlySet<string>, b: ReadonlySet<string>): boolean =>
  a.size === b.size && [...a].every(key => b.has(key))

const cutOf = (from: RelayListener, keys: ReadonlySet<string>): Cut => {
  const endpoints = from.endpoints.filter(({ key }) => !keys.has(key))
  return { from, keys, listener: { ...from, endpoints } }
}

const loopsOf = ({ from, keys }: Cut): readonly Loop[] =>
  from.endpoints
    .filter(({ key }) => keys.has(key))
    .map(endpoint => ({ listener: from, endpoint }))

/** Services in a row, each the other's endpoint; no real cluster has so many. */
const mostHops = 64

/**
 * The endpoints that close a ring, or a row of more than 64, by the id of their listener.
 * Pure; the same edges give the same answer in whatever order they come.
 */
const cutRings = (
  edges: ReadonlyMap<string, Edges>,
): ReadonlyMap<string, ReadonlySet<string>> => {
  const cuts = new Map<string, Set<string>>()
  const settled = new Set<string>()
  const passing = new Set<string>()
  const isEnd = (id: string): boolean => settled.has(id) || !edges.has(id)
  const settle = (id: string): void => {
    passing.add(id)
    for (const [endpoint, target] of edges.get(id) ?? []) {
      const tooFar = passing.size >= mostHops
      if (!passing.has(target) && !isEnd(target) && !tooFar) settle(target)
      if (isEnd(target)) continue
      cuts.set(id, (cuts.get(id) ?? new Set()).add(endpoint))
    }
    passing.delete(id)
    settled.add(id)
  }
  for (const id of [...edges.keys()].toSorted()) if (!settled.has(id)) settle(id)
  return cuts
}

/** By endpoint key, the id of the listener to which that endpoint leads. */
type Edges = ReadonlyMap<string, string>

/**
 * Which listeners have addresses of other listeners for endpoints, for one protocol. Kept
 * up to date by what changes: endpoints are many, and hardly any is such an address.
 */
class EdgeIndex {
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
