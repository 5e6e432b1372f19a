import type { ServicePort } from '../model/snapshot.ts'
import type { DrainClose, RelayListener } from '../relay/relay.ts'
import type { Clock, Timer } from '../util/clock.ts'
import { joinHostPort } from '../util/ip.ts'

/** What an operator may order for a ServicePort, or one of its endpoints. */
interface OrderPayloads {
  /** New TCP clients wait. */
  readonly pause: {
    /** Open connections are reset, too. */
    readonly reset: boolean
  }
  /** The endpoint gets no new connections and flows. */
  readonly drain: { readonly close: DrainClose }
  /** Its weight in place of what the source says. */
  readonly weight: { readonly weight: number }
}

export type OrderKind = keyof OrderPayloads

export const orderKinds: readonly OrderKind[] = ['pause', 'drain', 'weight']

/** What it is about: one order of a kind stands for each at most. */
interface Subject<K extends OrderKind = OrderKind> {
  readonly kind: K
  /** `namespace/name:port`, of the ServicePorts of that name in all families. */
  readonly name: string
  /** `ip:port`; '' where it is about the whole ServicePort. */
  readonly endpoint: string
}

type OrderOf<K extends OrderKind> = Subject<K> & OrderPayloads[K]

/** What is ordered. */
export type NewOrder = { readonly [K in OrderKind]: OrderOf<K> }[OrderKind]

/** An order that stands; times in epoch milliseconds. */
export type StandingOrder<K extends OrderKind = OrderKind> = {
  readonly [One in K]: OrderOf<One>
}[K] & {
  readonly since: number
  /** When it ends by itself; undefined: when it is withdrawn. */
  readonly until: number | undefined
}

/** The same as it comes from another process. */
export type HandedOrder = {
  readonly [One in OrderKind]: OrderOf<One>
}[OrderKind] & { readonly since: number; readonly until?: number | undefined }

export interface OperatorOrdersDeps {
  readonly clock: Clock
  /** Epoch milliseconds. Default: Date.now. */
  readonly epoch?: () => number
  /** Some have ended by themselves, and why; that is to come into effect soon. */
  readonly ended: (orders: readonly StandingOrder[], reason: string) => void
}

interface Held {
  readonly order: StandingOrder
  /** By the clock; undefined: it does not end by itself. */
  readonly endsAt: number | undefined
}

/** All that is ordered for the ServicePorts of one name. */
interface OfOne {
  readonly held: Map<string, Held>
  /** What was made of listeners, so that one that did not change is the same object. */
  made: WeakMap<RelayListener, RelayListener>
}

/**
 * What operators have ordered while Usher runs: pauses, drains and weights. Forgotten at the end of the
 * process, unless another one takes over; an order for what is not there any more is forgotten, too.
 */
export class OperatorOrders {
  readonly #deps: OperatorOrdersDeps
  readonly #byName = new Map<string, OfOne>()
  /** For the one that ends next. */
  #timer: Timer | undefined

  constructor(deps: OperatorOrdersDeps) {
    this.#deps = deps
  }

  get<K extends OrderKind>(
    kind: K,
    name: string,
    endpoint = '',
  ): StandingOrder<K> | undefined {
    const order = this.#byName.get(name)?.held.get(keyOf({ kind, endpoint }))?.order
    return order as StandingOrder<K> | undefined
  }

  all(): readonly StandingOrder[] {
    return [...this.#byName.values()].flatMap(({ held }) =>
      Array.from(held.values(), ({ order }) => order),
    )
  }

  /**
   * Gives orders for `ms` milliseconds, or until they are withdrawn. One that stands for the same
   * is replaced, and has stood since then. Takes effect when `apply` is next called.
   */
  give(orders: readonly NewOrder[], ms: number | undefined): void {
    const { clock, epoch = Date.now } = this.#deps
    const now = epoch()
    const until = ms === undefined ? undefined : now + ms
    const endsAt = ms === undefined ? undefined : clock.now() + ms
    for (const order of orders) {
      const one = this.#byName.get(order.name) ?? newOfOne()
      const key = keyOf(order)
      const since = one.held.get(key)?.order.since ?? now
      one.held.set(key, { order: { ...order, since, until }, endsAt })
      one.made = new WeakMap()
      this.#byName.set(order.name, one)
    }
    this.#setTimer()
  }

  /** Those that stand in another process, whose place this one takes; they end when they would have. */
  takeOver(orders: readonly HandedOrder[]): void {
    const { clock, epoch = Date.now } = this.#deps
    for (const handed of orders) {
      const { until } = handed
      const order = { ...handed, until }
      const endsAt = until === undefined ? undefined : clock.now() + until - epoch()
      const one = this.#byName.get(order.name) ?? newOfOne()
      one.held.set(keyOf(order), { order, endsAt })
      this.#byName.set(order.name, one)
    }
    this.#setTimer()
  }

  /** How many of them stood. */
  withdraw(subjects: readonly Subject[]): number {
    let stood = 0
    for (const { kind, name, endpoint } of subjects) {
      const one = this.#byName.get(name)
      if (one?.held.delete(keyOf({ kind, endpoint })) !== true) continue
      stood += 1
      one.made = new WeakMap()
      if (one.held.size === 0) this.#byName.delete(name)
    }
    if (stood > 0) this.#setTimer()
    return stood
  }

  /** The listeners as they are to be applied, for these ServicePorts: all that there are. */
  apply(
    listeners: readonly RelayListener[],
    servicePorts: readonly ServicePort[],
  ): readonly RelayListener[] {
    if (this.#byName.size === 0) return listeners
    this.#end(this.#withoutSubject(servicePorts), 'it is gone')
    return listeners.map(listener => {
      const one = this.#byName.get(listener.name)
      if (one === undefined) return listener
      const known = one.made.get(listener)
      if (known !== undefined) return known
      const made = orderedListener(listener, [...one.held.values()])
      one.made.set(listener, made)
      return made
    })
  }

  close(): void {
    this.#byName.clear()
    this.#deps.clock.clearTimeout(this.#timer)
  }

  #withoutSubject(servicePorts: readonly ServicePort[]): readonly StandingOrder[] {
    const there = new Map(
      Array.from(this.#byName.keys(), name => [name, new Set<string>()]),
    )
    for (const { name, protocol, endpoints } of servicePorts) {
      const known = there.get(name)
      if (known === undefined) continue
      if (protocol === 'TCP') known.add('')
      for (const { address, port } of endpoints) known.add(joinHostPort(address, port))
    }
    return this.all().filter(({ name, endpoint }) => !there.get(name)?.has(endpoint))
  }

  #end(orders: readonly StandingOrder[], reason: string): void {
    if (orders.length === 0) return
    this.withdraw(orders)
    this.#deps.ended(orders, reason)
  }

  #setTimer(): void {
    const { clock } = this.#deps
    clock.clearTimeout(this.#timer)
    this.#timer = undefined
    let next = Infinity
    for (const { held } of this.#byName.values())
      for (const { endsAt = Infinity } of held.values()) next = Math.min(next, endsAt)
    if (next === Infinity) return
    this.#timer = clock.setTimeout(
      () => this.#endDue(),
      Math.max(1, Math.ceil(next - clock.now())),
    )
  }

  #endDue(): void {
    const now = this.#deps.clock.now()
    const due: StandingOrder[] = []
    for (const { held } of this.#byName.values())
      for (const { order, endsAt = Infinity } of held.values())
        if (endsAt <= now) due.push(order)
    if (due.length === 0) this.#setTimer()
    this.#end(due, 'its time is over')
  }
}

const newOfOne = (): OfOne => ({ held: new Map(), made: new WeakMap() })

const keyOf = ({ kind, endpoint }: Pick<Subject, 'kind' | 'endpoint'>): string =>
  `${kind} ${endpoint}`

const orderedListener = (
  listener: RelayListener,
  held: readonly Held[],
): RelayListener => {
  const drained: { key: string; close: DrainClose }[] = []
  const weights = new Map<string, number>()
  let pause: StandingOrder<'pause'> | undefined
  for (const { order } of held) {
    if (order.kind === 'drain') drained.push({ key: order.endpoint, close: order.close })
    else if (order.kind === 'weight') weights.set(order.endpoint, order.weight)
    else if (listener.protocol === 'TCP') pause = order
  }
  let made = listener
  if (pause !== undefined)
    made = { ...made, paused: true, ...(pause.reset && { cut: 'all' as const }) }
  if (weights.size > 0) made = { ...made, endpoints: weighted(made, weights) }
  return drained.length === 0
    ? made
    : { ...made, drained, fronts: frontsOf(made, drained) }
}

const weighted = (
  { endpoints }: RelayListener,
  weights: ReadonlyMap<string, number>,
): RelayListener['endpoints'] =>
  endpoints.map(endpoint => {
    const weight = weights.get(endpoint.key)
    return weight === undefined ? endpoint : { ...endpoint, weight }
  })

/** Says why its sockets are closed, where that is because all are drained. */
const frontsOf = (
  { fronts, endpoints }: RelayListener,
  drained: readonly { readonly key: string }[],
): RelayListener['fronts'] => {
  const keys = new Set(drained.map(({ key }) => key))
  if (endpoints.length === 0 || endpoints.some(({ key }) => !keys.has(key))) return fronts
  return fronts.map(front => ({ ...front, closedReason: 'all endpoints are drained' }))
}
