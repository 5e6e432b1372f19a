import type { Clock } from '../util/clock.ts'
import { Affinity } from './affinity.ts'
import type { Cell } from './cell.ts'
import {
  afterFailure,
  afterSuccess,
  isResting,
  noRest,
  probed,
  type Rest,
} from './resting.ts'
import { type KeySet, RoundRobin, tierOf, type Tiered } from './round-robin.ts'

/** An endpoint as the balancer has it. */
export interface Balanced extends Tiered {
  readonly rest: Cell<Rest>
}

/** How long one connection has an endpoint that failed to itself, to see how it is. */
const usualProbeMs = 1000

/**
 * Chooses the endpoint of each new connection of one ServicePort: the one the client
 * had (ClientIP affinity), else the next in turn. Endpoints are told apart by `key`;
 * position and affinity live on across `setEndpoints`, and rests are the endpoints' own.
 */
export class Balancer<E extends Balanced> {
  readonly #clock: Pick<Clock, 'now'>
  readonly #random: () => number
  readonly #ring: RoundRobin<E>
  readonly #rests = (endpoint: E): boolean => this.isResting(endpoint)
  /** Made when needed: most listeners need none, and there may be thousands of them. */
  #affinity: Affinity | undefined

  /**
   * Milliseconds that a flow waits for its first reply, where that alone shows that an endpoint
   * serves: it is tried for so long, and does not get clients of its own as long as it may fail.
   */
  replyMs: number | undefined

  /** `random` is uniform in [0, 1); it decides where the round starts. */
  constructor(clock: Pick<Clock, 'now'>, random: () => number) {
    this.#clock = clock
    this.#random = random
    this.#ring = this.newRound()
  }

  /** For `pick`: of some of the endpoints, none so far. */
  newRound(): RoundRobin<E> {
    return new RoundRobin(this.#random)
  }

  get size(): number {
    return this.#ring.size
  }

  /** Whether `pick` looks at who the client is. */
  get isSticky(): boolean {
    return this.#affinity !== undefined
  }

  /** In the order of their turns. */
  get endpoints(): readonly E[] {
    return this.#ring.all
  }

  get(key: string): E | undefined {
    return this.#ring.get(key)
  }

  has(key: string): boolean {
    return this.#ring.get(key) !== undefined
  }

  /** O(n). Of duplicate keys the first counts; an endpoint's affinity goes with it. */
  setEndpoints(list: readonly E[]): void {
    const oneWent = this.#ring.setEndpoints(list)
    if (oneWent) this.#affinity?.retain(this)
  }

  /**
   * Sliding ClientIP affinity in milliseconds, which counts at once for entries there
   * already are; 0 for none, which forgets them.
   */
  setAffinity(ms: number): void {
    if (ms <= 0) this.#affinity = undefined
    else if (this.#affinity === undefined) this.#affinity = new Affinity(ms)
    else this.#affinity.timeoutMs = ms
  }

  /**
   * Where to try `client` next, leaving out the keys in `tried`; undefined when nothing
   * is left. Changes no affinity: trying is not succeeding. Endpoints that failed a moment
   * ago come last, but for a client that is theirs.
   *
   * `among`: a round of some of the endpoints, which are all this client may get. A round
   * of its own, because those who share one with others would not meet equal shares.
   */
  pick(client: string, tried?: KeySet, among: RoundRobin<E> = this.#ring): E | undefined {
    return this.#remembered(client, tried, among) ?? this.#inTurn(tried, among)
  }

  /**
   * An attempt came to nothing: for `restMs` milliseconds others are preferred, and for twice
   * as long each time that it fails again after its rest, up to `longestMs`.
   */
  failed({ rest }: E, restMs: number, longestMs = 0): void {
    const now = this.#clock.now()
    rest.change(before => afterFailure(before, now, restMs, longestMs))
  }

  /** It does what it is there for: it is preferred no less than the others. */
  served({ rest }: E): void {
    if (rest.read() !== noRest) rest.change(afterSuccess)
  }

  /**
   * The connection stands. Only this writes affinity, so that attempts which fail never
   * move a client (kube-proxy's userspace mode re-pinned it at each one). Ignored when
   * the endpoint has gone meanwhile.
   */
  connected(client: string, endpoint: E): void {
    if (this.#affinity === undefined || !this.has(endpoint.key)) return
    this.#affinity.remember(client, endpoint.key, this.#clock.now())
  }

  /** Frees expired affinity; call it now and then. */
  sweep(): void {
    this.#affinity?.sweep(this.#clock.now())
  }

  /** Whether an endpoint failed a moment ago and is passed over while there are others. */
  isResting({ rest }: E): boolean {
    const now = rest.read()
    return now !== noRest && isResting(now, this.#clock.now())
  }

  /** The next in turn that does not rest, or simply the next when all do. */
  #inTurn(tried: KeySet | undefined, among: RoundRobin<E>): E | undefined {
    let endpoint = among.next(tried, this.#rests)
    while (endpoint !== undefined && !this.#isFree(endpoint)) {
      endpoint = among.next(tried, this.#rests)
    }
    return endpoint ?? among.next(tried)
  }

  /** Of connections that find its rest over, whatever their thread, one is told so. */
  #isFree({ rest }: E): boolean {
    const now = this.#clock.now()
    return (
      rest.read() === noRest ||
      rest.change(before => probed(before, now, this.replyMs ?? usualProbeMs))
    )
  }

  #remembered(
    client: string,
    tried: KeySet | undefined,
    among: RoundRobin<E>,
  ): E | undefined {
    if (this.#affinity === undefined || this.#affinity.size === 0) return undefined
    const key = this.#affinity.lookup(client, this.#clock.now())
    if (key === undefined || tried?.has(key)) return undefined
    const endpoint = among.get(key)
    if (endpoint === undefined) return undefined
    // A connection that fails goes on to another; a flow that waits in vain does not.
    if (this.replyMs !== undefined && endpoint.rest.read() !== noRest) return undefined
    if (among.tiers.length === 1) return endpoint
    // A client comes back to the lower tier as soon as that serves.
    return tierOf(endpoint) <= this.#bestTier(among) ? endpoint : undefined
  }

  /** The lowest tier with an endpoint that does not rest. */
  #bestTier(among: RoundRobin<E>): number {
    const serving = among.all.filter(endpoint => !this.isResting(endpoint))
    return Math.min(...serving.map(tierOf))
  }
}
