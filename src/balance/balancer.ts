import { type BalanceBy, balancePolicies } from '../model/balance-policies.ts'
import type { Clock } from '../util/clock.ts'
import { Affinity, type Remembered } from './affinity.ts'
import type { Cell } from './cell.ts'
import { afterAnswer, type Doubts, isInDoubt, noDoubts } from './doubts.ts'
import {
  afterFailure,
  afterSuccess,
  isCoolingDown,
  noCooldown,
  probed,
  type Cooldown,
  enoughDownMs,
  listedAnew,
  noRecovery,
  type Recovery,
  recoveryAfterFailure,
  recoveryAfterSuccess,
  shareOf,
} from './cooldown.ts'
import { LeastConnections, type Counted, RandomChoice } from './random-choice.ts'
import { Maglev } from './maglev.ts'
import { type KeySet, type Pool, type Tiered, tierOf } from './pool.ts'
import { RoundRobin } from './round-robin.ts'

/** An endpoint as the balancer has it. */
export interface Balanced extends Counted {
  readonly cooldown: Cell<Cooldown>
  /** Only where there is a slow start. */
  readonly recovery?: Cell<Recovery> | undefined
  /** Only where connections that are not served count. */
  readonly doubts?: Cell<Doubts> | undefined
}

/** How long one connection has an endpoint that failed to itself, to see how it is. */
const usualProbeMs = 1000

/**
 * Chooses the endpoint of each new connection of one ServicePort: the one the client
 * had (ClientIP affinity), else the next in turn. Endpoints are told apart by `key`;
 * position and affinity live on across `setEndpoints`, and cooldowns are the endpoints' own.
 */
export class Balancer<E extends Balanced> {
  readonly #clock: Pick<Clock, 'now'>
  readonly #random: () => number
  #by: BalanceBy = 'round-robin'
  #slowStartMs = 0
  /**
   * By key, those that a check or the source took off the list, as they were; with slow start alone, for
   * as long as it matters.
   */
  #left: Map<string, { readonly at: number; readonly recovery: Recovery }> | undefined
  /** When the first of the endpoints came. */
  #startedAt = -Infinity
  #era = 0
  #pool: Pool<E>
  readonly #passesOver = (endpoint: E): boolean =>
    this.isCoolingDown(endpoint) || this.isFull(endpoint)
  readonly #isFull = (endpoint: E): boolean => this.isFull(endpoint)
  readonly #weightOf = (endpoint: E): number => this.#weightNow(endpoint)
  /** Made when needed: most listeners need none, and there may be thousands of them. */
  #affinity: Affinity | undefined

  /**
   * Milliseconds that a flow waits for its first reply, where that alone shows that an endpoint
   * serves: it is tried for so long, and does not get clients of its own as long as it may fail.
   */
  replyMs: number | undefined

  /**
   * Endpoints are up by their checks: one that cools down because it did not serve does not give way to
   * those of later tiers.
   */
  keepsTiers = false

  /** How many connections an endpoint may have; one that has as many gets no more. */
  maxConnections = Infinity

  /** `random` is uniform in [0, 1); it decides where the round starts, and what chance decides. */
  constructor(clock: Pick<Clock, 'now'>, random: () => number) {
    this.#clock = clock
    this.#random = random
    this.#pool = this.newPool()
  }

  /** For `pick`: of some of the endpoints, none so far. */
  newPool(): Pool<E> {
    const weightOf = this.#slowStartMs > 0 ? this.#weightOf : undefined
    return makePool[this.#by](this.#random, weightOf)
  }

  /**
   * How endpoints are chosen from now on. `slowStartMs`: how long it takes one that was down to get
   * its full share; 0: no time.
   */
  setBalance(by: BalanceBy = 'round-robin', slowStartMs = 0): void {
    const isSame = by === this.#by && slowStartMs > 0 === this.#slowStartMs > 0
    this.#by = by
    this.#slowStartMs = slowStartMs
    if (isSame) return
    this.#era += 1
    const { all } = this.#pool
    this.#pool = this.newPool()
    this.#pool.setEndpoints(all)
  }

  get by(): BalanceBy {
    return this.#by
  }

  /** Pools that were made in another one choose in another way. */
  get era(): number {
    return this.#era
  }

  get size(): number {
    return this.#pool.size
  }

  /** Whether `pick` looks at who the client is. */
  get usesClient(): boolean {
    return this.#affinity !== undefined || balancePolicies[this.#by].isByClient === true
  }

  /** In the order of their turns. */
  get endpoints(): readonly E[] {
    return this.#pool.all
  }

  get(key: string): E | undefined {
    return this.#pool.get(key)
  }

  has(key: string): boolean {
    return this.#pool.get(key) !== undefined
  }

  /** O(n). Of duplicate keys the first counts; an endpoint's affinity goes with it. */
  setEndpoints(list: readonly E[]): void {
    if (this.#slowStartMs > 0) this.#noteNew(list)
    const oneWent = this.#pool.setEndpoints(list)
    if (oneWent) this.#affinity?.retain(this)
  }

  #noteNew(list: readonly E[]): void {
    const now = this.#clock.now()
    if (this.size === 0) this.#startedAt = now
    const listed = new Set(list.map(({ key }) => key))
    const left = (this.#left ??= new Map())
    for (const { key, recovery } of this.endpoints)
      if (!listed.has(key))
        left.set(key, { at: now, recovery: recovery?.read() ?? noRecovery })
    for (const [key, { at }] of left) if (now - at >= enoughDownMs) left.delete(key)
    // The first checks, and names, are not answered in one moment.
    const isStart = now - this.#startedAt < enoughDownMs
    for (const { key, recovery } of list) {
      if (this.has(key)) continue
      const before = left.get(key)?.recovery
      left.delete(key)
      // It goes on where it was; one that was down before is back.
      if (before !== undefined)
        recovery?.change(() => recoveryAfterSuccess(before, now) ?? before)
      else if (!isStart) recovery?.change(() => listedAnew(now))
    }
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
   * ago come last, but for a client that is theirs; those that are full are left out.
   *
   * `among`: some of the endpoints, which are all this client may get. A pool of its own,
   * because those who share one with others would not meet equal shares.
   */
  pick(client: string, tried?: KeySet, among: Pool<E> = this.#pool): E | undefined {
    return (
      this.pickGood(client, tried, among) ?? this.pickCoolingDown(client, tried, among)
    )
  }

  /** As `pick`, without those that failed a moment ago. */
  pickGood(client: string, tried?: KeySet, among: Pool<E> = this.#pool): E | undefined {
    const good =
      this.#remembered(client, tried, among) ?? this.#inTurn(client, tried, among)
    const passesOver = this.#passedBefore(good, among)
    return (passesOver && among.next(tried, passesOver, client)) ?? good
  }

  /** As `pick`, whether they failed or not. */
  pickCoolingDown(
    client: string,
    tried?: KeySet,
    among: Pool<E> = this.#pool,
  ): E | undefined {
    return among.next(tried, this.#isFull, client)
  }

  /**
   * Those of which `pickGood` would give one now, by chance where there are several. Changes nothing:
   * no turn is taken, and no endpoint tried.
   */
  likelyGood(client: string, tried?: KeySet, among: Pool<E> = this.#pool): readonly E[] {
    const own = this.#remembered(client, tried, among)
    const good = own ? [own] : among.candidates(tried, this.#passesOver, client)
    const passesOver = this.#passedBefore(good[0], among)
    const before = passesOver && among.candidates(tried, passesOver, client)
    return before?.length ? before : good
  }

  /** The same of `pickCoolingDown`. */
  likelyCoolingDown(
    client: string,
    tried?: KeySet,
    among: Pool<E> = this.#pool,
  ): readonly E[] {
    return among.candidates(tried, this.#isFull, client)
  }

  /** Where affinity sends a client, whether that can be had or not, and for how long if it does not come. */
  affinityOf(
    client: string,
  ): { readonly key: string; readonly leftMs: number } | undefined {
    const now = this.#clock.now()
    const key = this.#affinity?.lookup(client, now)
    if (key === undefined) return undefined
    return { key, leftMs: this.#affinity?.leftMs(client, now) ?? 0 }
  }

  /** Whether it has as many connections as it may have. */
  isFull({ connections = 0 }: E): boolean {
    return connections >= this.maxConnections
  }

  /** Whether one would be left to be picked if it were not full. */
  isAnyFull(tried?: KeySet, among: Pool<E> = this.#pool): boolean {
    return among.all.some(one => this.isFull(one) && !tried?.has(one.key))
  }

  /**
   * Whether an endpoint is to be waited for, rather than `good` to be tried, which `pickGood` gave:
   * one that is no worse but for being full. Those of a higher tier, or of weight 0, are for when it
   * fails; but not for a client that is theirs.
   */
  isWorthWaiting(
    client: string,
    good: E | undefined,
    tried?: KeySet,
    among: Pool<E> = this.#pool,
  ): boolean {
    const before = good === undefined ? Infinity : rankOf(good)
    if (before === 2 * (among.tiers[0] ?? 0)) return false
    if (good !== undefined && this.#remembered(client, tried, among) === good)
      return false
    return among.all.some(
      one =>
        rankOf(one) < before &&
        this.isFull(one) &&
        !tried?.has(one.key) &&
        !this.isCoolingDown(one),
    )
  }

  /**
   * An attempt came to nothing: for `cooldownMs` milliseconds others are preferred, and for twice
   * as long each time that it fails again after its cooldown, up to `longestMs`.
   */
  failed({ cooldown, recovery }: E, cooldownMs: number, longestMs = 0): void {
    const now = this.#clock.now()
    cooldown.change(before => afterFailure(before, now, cooldownMs, longestMs))
    recovery?.change(before => recoveryAfterFailure(before, now))
  }

  /** It does what it is there for: it is preferred no less than the others. */
  served({ cooldown, recovery, doubts }: E): void {
    if (doubts !== undefined && doubts.read() !== noDoubts) doubts.change(afterAnswer)
    if (cooldown.read() === noCooldown) return
    cooldown.change(afterSuccess)
    if (recovery === undefined) return
    const now = this.#clock.now()
    recovery.change(before => recoveryAfterSuccess(before, now))
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

  /** Whom affinity leads where, as far as it was used within `ms`. */
  remembered(ms: number): readonly Remembered[] {
    return this.#affinity?.usedWithin(ms, this.#clock.now()) ?? []
  }

  /** What another one has remembered, as far as it is newer. */
  adoptRemembered(clients: readonly Remembered[]): void {
    const listed = clients.filter(([, endpoint]) => this.has(endpoint))
    this.#affinity?.adopt(listed, this.#clock.now())
  }

  /** Frees expired affinity; call it now and then. */
  sweep(): void {
    this.#affinity?.sweep(this.#clock.now())
  }

  /** Whether an endpoint failed a moment ago and is passed over while there are others. */
  isCoolingDown({ cooldown }: E): boolean {
    const now = cooldown.read()
    return now !== noCooldown && isCoolingDown(now, this.#clock.now())
  }

  /** Who is passed over for the sake of those up by their checks, of earlier tiers than `good`. */
  #passedBefore(
    good: E | undefined,
    { tiers }: Pool<E>,
  ): ((one: E) => boolean) | undefined {
    const before = good === undefined ? Infinity : tierOf(good)
    if (!this.keepsTiers || tiers.length === 1 || before === tiers[0]) return undefined
    return one => tierOf(one) >= before || !this.#staysUp(one) || this.isFull(one)
  }

  /** Whether it cools down, if at all, only because it did not serve, and is up by its check. */
  #staysUp({ doubts }: E): boolean {
    return this.keepsTiers && doubts !== undefined && isInDoubt(doubts.read())
  }

  /** The next in turn that does not cool down. */
  #inTurn(client: string, tried: KeySet | undefined, among: Pool<E>): E | undefined {
    let endpoint = among.next(tried, this.#passesOver, client)
    while (endpoint !== undefined && !this.#isFree(endpoint)) {
      endpoint = among.next(tried, this.#passesOver, client)
    }
    return endpoint
  }

  #weightNow({ weight = 1, recovery }: E): number {
    if (recovery === undefined) return weight
    return weight * shareOf(recovery.read(), this.#clock.now(), this.#slowStartMs)
  }

  /** Of connections that find its cooldown over, whatever their thread, one gets true. */
  #isFree({ cooldown }: E): boolean {
    const now = this.#clock.now()
    return (
      cooldown.read() === noCooldown ||
      cooldown.change(before => probed(before, now, this.replyMs ?? usualProbeMs))
    )
  }

  #remembered(client: string, tried: KeySet | undefined, among: Pool<E>): E | undefined {
    if (this.#affinity === undefined || this.#affinity.size === 0) return undefined
    const key = this.#affinity.lookup(client, this.#clock.now())
    if (key === undefined || tried?.has(key)) return undefined
    const endpoint = among.get(key)
    if (endpoint === undefined || this.isFull(endpoint)) return undefined
    // A connection that fails goes on to another; a flow that waits in vain does not.
    if (this.replyMs !== undefined && endpoint.cooldown.read() !== noCooldown)
      return undefined
    if (among.tiers.length === 1) return endpoint
    // A client comes back to the lower tier as soon as that serves.
    return tierOf(endpoint) <= this.#bestTier(among) ? endpoint : undefined
  }

  /** The lowest tier with an endpoint that does not cool down. */
  #bestTier(among: Pool<E>): number {
    const serving = among.all.filter(
      one => !this.isCoolingDown(one) || this.#staysUp(one),
    )
    return Math.min(...serving.map(tierOf))
  }
}

type MakePool = <E extends Balanced>(
  random: () => number,
  weightOf?: (endpoint: E) => number,
) => Pool<E>

const makePool: Readonly<Record<BalanceBy, MakePool>> = {
  'round-robin': (...given) => new RoundRobin(...given),
  'least-connections': (...given) => new LeastConnections(...given),
  random: (...given) => new RandomChoice(...given),
  maglev: () => new Maglev(),
}

/** In which order endpoints are to be used, the lowest first: within a tier those of weight 0 are the last. */
export const rankOf = (one: Tiered): number =>
  2 * tierOf(one) + (one.weight === 0 ? 1 : 0)
