import type { ServicePort, Snapshot, Vip } from '../../model/snapshot.ts'
import { forEachYielding } from '../../util/yielding.ts'
import {
  compile,
  type Compiled,
  type CompileSettings,
  type ServerClaim,
  type SetEntry,
} from './compile.ts'
import type { ServerId } from './server-id.ts'
import { type SetKind, setKinds } from './set-names.ts'
import { Touched } from './known-state.ts'

interface Had {
  readonly servicePort: ServicePort
  readonly compiled: Compiled
}

/** What the kernel should have of one family, kept up from snapshot to snapshot. */
export class WantedState {
  readonly #settings: CompileSettings
  readonly #had = new Map<string, Had>()
  readonly #claims = new Map<ServerId, ServerClaim[]>()
  readonly #sets: ReadonlyMap<SetKind, Counted>
  readonly #healthPorts = new Set<string>()
  readonly addresses = new Counted()

  constructor(settings: CompileSettings) {
    this.#settings = settings
    this.#sets = new Map(setKinds.map(kind => [kind, new Counted()]))
  }

  server(id: ServerId): ServerClaim | undefined {
    const claims = this.#claims.get(id)
    return claims?.find(({ isNodePort }) => !isNodePort) ?? claims?.[0]
  }

  /** What one VIP needs, wanted or not. */
  compiledFor(servicePort: ServicePort, vip: Vip): Compiled {
    return compile({ ...servicePort, vips: [vip] }, this.#settings)
  }

  set(kind: SetKind): Counted {
    const set = this.#sets.get(kind)
    if (set === undefined) throw new Error(`no set ${kind}`)
    return set
  }

  /** Gives what may be different now; costs what changed, by `===` of ServicePorts. */
  async take(snapshot: Snapshot): Promise<Touched> {
    const touched = new Touched()
    const { servicePorts } = snapshot
    for (const [key, { compiled }] of this.#had)
      if (!servicePorts.has(key)) {
        this.#had.delete(key)
        this.#remove(compiled, touched)
      }
    await forEachYielding(servicePorts, ([key, servicePort]) => {
      const before = this.#had.get(key)
      if (before?.servicePort === servicePort) return
      const compiled = compile(servicePort, this.#settings)
      this.#had.set(key, { servicePort, compiled })
      // First, so that what both need is there all the time.
      this.#add(compiled, touched)
      if (before !== undefined) this.#remove(before.compiled, touched)
    })
    this.#takeHealthPorts(snapshot, touched)
    return touched
  }

  #add({ servers, entries, addresses }: Compiled, touched: Touched): void {
    for (const claim of servers) {
      touched.servers.add(claim.id)
      const claims = this.#claims.get(claim.id)
      // The newest first: it takes the place of the one that is about to go.
      if (claims === undefined) this.#claims.set(claim.id, [claim])
      else claims.unshift(claim)
    }
    for (const entry of entries) this.#addEntry(entry, touched)
    for (const address of addresses) {
      this.addresses.add(address)
      touched.addresses.add(address)
    }
  }

  #remove({ servers, entries, addresses }: Compiled, touched: Touched): void {
    for (const claim of servers) {
      touched.servers.add(claim.id)
      const left = this.#claims.get(claim.id)?.filter(other => other !== claim) ?? []
      if (left.length === 0) this.#claims.delete(claim.id)
      else this.#claims.set(claim.id, left)
    }
    for (const entry of entries) this.#removeEntry(entry, touched)
    for (const address of addresses) {
      this.addresses.remove(address)
      touched.addresses.add(address)
    }
  }

  #takeHealthPorts({ healthChecks }: Snapshot, touched: Touched): void {
    const now = new Set(Array.from(healthChecks.values(), ({ port }) => String(port)))
    const kind = 'HEALTH-CHECK-NODE-PORT'
    for (const port of this.#healthPorts) {
      if (now.has(port)) continue
      this.#healthPorts.delete(port)
      this.#removeEntry([kind, port], touched)
    }
    for (const port of now) {
      if (this.#healthPorts.has(port)) continue
      this.#healthPorts.add(port)
      this.#addEntry([kind, port], touched)
    }
  }

  #addEntry([kind, entry]: SetEntry, touched: Touched): void {
    this.set(kind).add(entry)
    touched.entry(kind, entry)
  }

  #removeEntry([kind, entry]: SetEntry, touched: Touched): void {
    this.set(kind).remove(entry)
    touched.entry(kind, entry)
  }
}

/** Names, each with how many need it. */
export class Counted {
  readonly #counts = new Map<string, number>()

  add(name: string): void {
    this.#counts.set(name, (this.#counts.get(name) ?? 0) + 1)
  }

  remove(name: string): void {
    const count = this.#counts.get(name) ?? 0
    if (count > 1) this.#counts.set(name, count - 1)
    else this.#counts.delete(name)
  }

  has(name: string): boolean {
    return this.#counts.has(name)
  }

  get size(): number {
    return this.#counts.size
  }
}
