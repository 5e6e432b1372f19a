import type { ListenerStats, RelayListener } from '../../relay.ts'
import { Port, type PortEnv } from './port.ts'
import type { WorkerHandle } from './worker-handle.ts'

/** All ports, also those that are not wanted but have connections. */
export class Ports {
  readonly #env: PortEnv
  readonly #byId = new Map<string, Port>()
  readonly #bySlot = new Map<number, Port>()
  /** Slots of endpoints that workers are about to let go of. */
  #leftSlots: number[] = []

  constructor(env: PortEnv) {
    this.#env = env
  }

  get(id: string): Port | undefined {
    return this.#byId.get(id)
  }

  at(slot: number): Port | undefined {
    return this.#bySlot.get(slot)
  }

  values(): Iterable<Port> {
    return this.#byId.values()
  }

  ofUdp(): readonly Port[] {
    return [...this.#byId.values()].filter(({ protocol }) => protocol === 'UDP')
  }

  update(spec: RelayListener): void {
    const port = this.#byId.get(spec.id) ?? this.#make(spec)
    this.#leftSlots.push(...port.take(spec))
  }

  retire(id: string): void {
    const port = this.#byId.get(id)
    if (port === undefined) return
    port.retire()
    this.#removeIfOver(port)
  }

  /** A worker has nothing left of a port that was retired. */
  retired(worker: WorkerHandle, slot: number): void {
    const port = this.#bySlot.get(slot)
    // It may have come back meanwhile.
    if (port === undefined || port.wanted) return
    port.retiring.delete(worker)
    this.#removeIfOver(port)
  }

  /** No thread is left, nor anything that they had. */
  over(): void {
    const { workers, listenerSlots, endpointSlots } = this.#env
    for (const port of this.#bySlot.values()) port.over()
    for (const worker of workers)
      worker.clearGauges(listenerSlots.count, endpointSlots.count)
    for (const port of this.#bySlot.values()) if (!port.wanted) this.#remove(port)
  }

  /** Ids of those that are there and not among `wanted`. */
  without(wanted: ReadonlyMap<string, unknown>): readonly string[] {
    return [...this.#byId.keys()].filter(id => !wanted.has(id))
  }

  /** All workers have let go of what was left when this was asked for. */
  freeEndpoints(): () => void {
    const slots = this.#leftSlots
    this.#leftSlots = []
    return () => {
      this.#env.figures.clearEndpoints(slots)
      for (const slot of slots) this.#env.endpointSlots.free(slot)
    }
  }

  stats(): Iterable<ListenerStats> {
    const ports = this.#byId
    return {
      *[Symbol.iterator]() {
        for (const port of ports.values()) yield port.stats()
      },
    }
  }

  #make(spec: RelayListener): Port {
    const port = new Port(this.#env, spec)
    this.#byId.set(spec.id, port)
    this.#bySlot.set(port.slot, port)
    return port
  }

  #removeIfOver(port: Port): void {
    if (port.retiring.size === 0) this.#remove(port)
  }

  #remove(port: Port): void {
    this.#byId.delete(port.spec.id)
    this.#bySlot.delete(port.slot)
    port.free()
  }
}
