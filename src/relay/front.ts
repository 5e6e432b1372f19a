import type { Balancer, Balanced } from '../balance/balancer.ts'
import type { Pool } from '../balance/pool.ts'
import type { ClientLists, ServerNamePool, ServerNameRules } from '../model/traffic.ts'
import { type AddressRanges, isAmong, isAmongAny } from '../util/address-ranges.ts'
import { addressWords } from '../util/cidr.ts'
import type { NodeClientSet } from './node-clients.ts'
import {
  bindKey,
  type EndpointChoice,
  type RelayFront,
  type RelayEndpoint,
} from './relay.ts'
import type { Cell } from '../balance/cell.ts'
import type { Doubts } from '../balance/doubts.ts'
import type { Replies } from '../balance/replies.ts'
import type { Recovery } from '../balance/cooldown.ts'
import type { EndpointPlaces } from './shared-places.ts'

let lastChoice = 0

/**
 * What some clients may choose from. One object for as long as its front lives, so that a
 * connection which is still being dialled goes by the newest state.
 */
export class Choice<B extends Backend = Backend> {
  /** No other one's. */
  readonly id: number
  readonly #listed: Balancer<B>
  #among: Pool<B> | undefined
  #era = 0

  /** `listed`: the endpoints of the listener. */
  constructor(listed: Balancer<B>) {
    lastChoice += 1
    this.id = lastChoice
    this.#listed = listed
  }

  /** For `Balancer.pick`; undefined: all that is listed. */
  get among(): Pool<B> | undefined {
    return this.#among
  }

  has(key: string): boolean {
    return this.#among === undefined || this.#among.get(key) !== undefined
  }

  get isEmpty(): boolean {
    return (this.#among ?? this.#listed).size === 0
  }

  /** Keys that are not listed (any more) don't count. */
  take(choice: EndpointChoice): void {
    if (choice === 'all') {
      this.#among = undefined
      return
    }
    if (this.#among === undefined || this.#listed.era !== this.#era) {
      this.#among = this.#listed.newPool()
      this.#era = this.#listed.era
    }
    this.#among.setEndpoints(choice.flatMap(key => this.#listed.get(key) ?? []))
  }
}

/** Who may come in by some of a listener's addresses, and what they may choose from. */
export class Front<B extends Backend = Backend> {
  readonly #nodeClients: NodeClientSet
  readonly #listed: Balancer<B>
  readonly #everybody: Choice<B>
  readonly #fromNode: Choice<B>
  #nodeDiffers = false
  #holds = false
  /** By `poolKey`, in the order of the listener's pools. */
  #pools: ReadonlyMap<string, Choice<B>> = noPools
  #choices: readonly Choice<B>[] = []
  #lists: ClientLists | undefined
  #ranges: AddressRanges | undefined

  constructor(listed: Balancer<B>, nodeClients: NodeClientSet) {
    this.#nodeClients = nodeClients
    this.#listed = listed
    this.#everybody = new Choice(listed)
    this.#fromNode = new Choice(listed)
  }

  /**
   * `holds`: clients wait where there is no endpoint. `lists`: of all the listener's clients.
   * `names`: its endpoints are shared out by them.
   */
  take(
    spec: RelayFront,
    holds: boolean,
    lists: ClientLists | undefined,
    names?: ServerNameRules,
  ): void {
    const { endpoints, endpointsFromNode, allowedClients } = spec
    this.#everybody.take(names === undefined ? endpoints : (names.others ?? []))
    this.#takePools(names)
    this.#nodeDiffers = endpointsFromNode !== undefined
    // Also where it is the same: dials that began while it was not go by it.
    this.#fromNode.take(endpointsFromNode ?? endpoints)
    this.#holds = holds
    this.#lists = (lists?.deny ?? lists?.allow) && lists
    this.#ranges = allowedClients
  }

  /** Whether some clients may not connect, whatever there is for them. */
  get isSelective(): boolean {
    return this.#lists !== undefined || this.#ranges !== undefined
  }

  /** Whether a client may connect; its address in words, see `addressWords`. */
  letsIn(words: ArrayLike<number>): boolean {
    if (this.#lists !== undefined) {
      const { deny, allow } = this.#lists
      if (deny !== undefined && isAmongAny(deny, words)) return false
      if (allow !== undefined && !isAmongAny(allow, words)) return false
    }
    return this.#ranges === undefined || isAmong(this.#ranges, words)
  }

  /** The same of an address as text. */
  letsInFrom(address: string): boolean {
    if (!this.isSelective) return true
    const words = addressWords(address.replace(/%.*$/, ''))
    return words !== undefined && this.letsIn(words)
  }

  /** Whether it matters where the client is; if not, any address will do for `choiceOf`. */
  get asksForNode(): boolean {
    return this.#nodeDiffers
  }

  /** Whether it matters who the client is; if not, any address will do for `admit`. */
  get asksForClient(): boolean {
    return this.#nodeDiffers || this.isSelective
  }

  /** What a client may choose from; undefined when it may not connect. See `choiceOf`. */
  admit(address: string, dialled = '', pool?: number): Choice<B> | undefined {
    if (!this.letsInFrom(address)) return undefined
    return pool === undefined ? this.choiceOf(address, dialled) : this.choiceOfPool(pool)
  }

  /**
   * What a client that is let in may choose from; undefined: nothing. `dialled` is the
   * address it came to: a client from that very address is on this host. Linux gives
   * connections to an address that is local by a route alone, and on no interface, that
   * address for their source; from elsewhere it drops such packets (accept_local,
   * ip-sysctl).
   */
  choiceOf(address: string, dialled = ''): Choice<B> | undefined {
    if (!this.asksForClient) return this.#everybody
    const isHere = address !== '' && address === dialled
    if (this.#nodeDiffers && (isHere || this.#nodeClients.has(address))) {
      return this.#unlessEmpty(this.#fromNode)
    }
    return this.#unlessEmpty(this.#everybody)
  }

  /** The same for a TLS client by the index of its pool in the listener's. */
  choiceOfPool(pool: number): Choice<B> | undefined {
    const choice = this.#choices[pool]
    return choice && this.#unlessEmpty(choice)
  }

  /** A pool is the same as before when it is for the same names: dials go on by it. */
  #takePools(names: ServerNameRules | undefined): void {
    if (names === undefined && this.#pools.size === 0) return
    const before = this.#pools
    const after = new Map<string, Choice<B>>()
    const choices: Choice<B>[] = []
    for (const pool of names?.pools ?? []) {
      const key = poolKey(pool)
      const choice = before.get(key) ?? new Choice(this.#listed)
      choice.take(pool.endpoints)
      after.set(key, choice)
      choices.push(choice)
    }
    for (const [key, choice] of before) if (!after.has(key)) choice.take([])
    this.#pools = after
    this.#choices = choices
  }

  #unlessEmpty(choice: Choice<B>): Choice<B> | undefined {
    return choice.isEmpty && !this.#holds ? undefined : choice
  }
}

/** The fronts of one listener, by address. */
export class Fronts<B extends Backend = Backend> {
  readonly #make: () => Front<B>
  readonly #listed: Balancer<B>
  #byBind: ReadonlyMap<string, Front<B>> = new Map()

  constructor(listed: Balancer<B>, nodeClients: NodeClientSet) {
    this.#listed = listed
    this.#make = () => new Front(listed, nodeClients)
  }

  /** Undefined for an address that is not (or no longer) the listener's. */
  at(bind: string): Front<B> | undefined {
    return this.#byBind.get(bind)
  }

  /**
   * What the client at `address` goes by that another process has let in at `bind`, if its endpoint has not
   * served it: nothing else where no front is there for it.
   */
  choiceOfAdopted(bind: string, address: string, dialled: string): Choice<B> {
    const front = this.#byBind.get(bind) ?? this.#byBind.values().next().value
    const choice = front?.choiceOf(address, dialled)
    if (choice !== undefined) return choice
    const none = new Choice(this.#listed)
    none.take([])
    return none
  }

  /** A front is the same as before when it still has the first of its known addresses. */
  take(
    specs: readonly RelayFront[],
    holds = false,
    lists?: ClientLists,
    names?: ServerNameRules,
  ): void {
    const byBind = new Map<string, Front<B>>()
    const taken = new Set<Front<B>>()
    for (const spec of specs) {
      const keys = spec.binds.map(bindKey)
      const known = keys.flatMap(key => this.#byBind.get(key) ?? [])
      const front = known.find(one => !taken.has(one)) ?? this.#make()
      taken.add(front)
      front.take(spec, holds, lists, names)
      for (const key of keys) byBind.set(key, front)
    }
    this.#byBind = byBind
  }
}

const noPools: ReadonlyMap<string, never> = new Map<string, never>()

const poolKey = ({ names, alpn }: ServerNamePool): string => JSON.stringify([names, alpn])

/**
 * An endpoint with what the relay knows of it. One object as long as it stays listed, or
 * keeps its flows.
 */
export interface Backend extends RelayEndpoint, Balanced {
  tier?: number | undefined
  weight?: number | undefined
  active: number
  failures: number
  /** Only where they count: `retry.expectsReplies`. */
  replies: Cell<Replies> | undefined
  /** Only where they count: see `countsUnserved`. */
  doubts?: Cell<Doubts> | undefined
  /** In this worker: when it last had an answer for a client, where answers are waited for. */
  servedAt?: number | undefined
  /** Only where there is a slow start. */
  recovery?: Cell<Recovery> | undefined
  /** In this worker: why, in words, and when by its clock. */
  lastFailure?: { readonly reason: string; readonly at: number } | undefined
  /** One for each TCP connection and dial, of all workers; only where they are counted. */
  places?: EndpointPlaces | undefined
}
