import type { Balancer } from '../balance/balancer.ts'
import type { RoundRobin } from '../balance/round-robin.ts'
import { type Cidr, cidrContains, parseCidr } from '../util/cidr.ts'
import type { Backend } from './backend.ts'
import type { NodeClientSet } from './node-clients.ts'
import {
  bindKey,
  type ConnectionRecord,
  type EndpointChoice,
  type RelayFront,
} from './relay.ts'

/**
 * What some clients may choose from. One object for as long as its front lives, so that a
 * connection which is still being dialled goes by the newest state.
 */
export class Choice<B extends Backend = Backend> {
  readonly #listed: Balancer<B>
  #among: RoundRobin<B> | undefined

  /** `listed`: the endpoints of the listener. */
  constructor(listed: Balancer<B>) {
    this.#listed = listed
  }

  /** For `Balancer.pick`; undefined: all that is listed. */
  get among(): RoundRobin<B> | undefined {
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
    this.#among ??= this.#listed.newRound()
    this.#among.setEndpoints(choice.flatMap(key => this.#listed.get(key) ?? []))
  }
}

/** Who may come in by some of a listener's addresses, and what they may choose from. */
export class Front<B extends Backend = Backend> {
  readonly #nodeClients: NodeClientSet
  readonly #everybody: Choice<B>
  readonly #fromNode: Choice<B>
  #nodeDiffers = false
  #holds = false
  #rangesText: readonly string[] | undefined
  #ranges: readonly Cidr[] | undefined

  constructor(listed: Balancer<B>, nodeClients: NodeClientSet) {
    this.#nodeClients = nodeClients
    this.#everybody = new Choice(listed)
    this.#fromNode = new Choice(listed)
  }

  /** `holds`: clients wait where there is no endpoint. */
  take(spec: RelayFront, holds: boolean): void {
    const { endpoints, endpointsFromNode, allowedClients } = spec
    this.#everybody.take(endpoints)
    this.#nodeDiffers = endpointsFromNode !== undefined
    // Also where it is the same: dials that began while it was not go by it.
    this.#fromNode.take(endpointsFromNode ?? endpoints)
    this.#holds = holds
    if (this.#rangesText !== allowedClients) {
      this.#rangesText = allowedClients
      this.#ranges = allowedClients?.flatMap(text => parseCidr(text) ?? [])
    }
  }

  /** Whether it matters who the client is; if not, any address will do for `admit`. */
  get asksForClient(): boolean {
    return this.#nodeDiffers || this.#ranges !== undefined
  }

  /**
   * What a client may choose from; undefined when it may not connect. `dialled` is the
   * address it came to: a client from that very address is on this host. Linux gives
   * connections to an address that is local by a route alone, and on no interface, that
   * address for their source; from elsewhere it drops such packets (accept_local,
   * ip-sysctl).
   */
  admit(address: string, dialled = ''): Choice<B> | undefined {
    if (!this.asksForClient) return this.#everybody
    if (!this.#isInRange(address)) return undefined
    const isHere = address !== '' && address === dialled
    if (this.#nodeDiffers && (isHere || this.#nodeClients.has(address))) {
      return this.#unlessEmpty(this.#fromNode)
    }
    return this.#unlessEmpty(this.#everybody)
  }

  #unlessEmpty(choice: Choice<B>): Choice<B> | undefined {
    return choice.isEmpty && !this.#holds ? undefined : choice
  }

  #isInRange(address: string): boolean {
    return this.#ranges?.some(cidr => cidrContains(cidr, address)) ?? true
  }
}

/** The fronts of one listener, by address. */
export class Fronts<B extends Backend = Backend> {
  readonly #make: () => Front<B>
  #byBind: ReadonlyMap<string, Front<B>> = new Map()

  constructor(listed: Balancer<B>, nodeClients: NodeClientSet) {
    this.#make = () => new Front(listed, nodeClients)
  }

  /** Undefined for an address that is not (or no longer) the listener's. */
  at(bind: string): Front<B> | undefined {
    return this.#byBind.get(bind)
  }

  /** A front is the same as before when it still has the first of its known addresses. */
  take(specs: readonly RelayFront[], holds = false): void {
    const byBind = new Map<string, Front<B>>()
    const taken = new Set<Front<B>>()
    for (const spec of specs) {
      const keys = spec.binds.map(bindKey)
      const known = keys.flatMap(key => this.#byBind.get(key) ?? [])
      const front = known.find(one => !taken.has(one)) ?? this.#make()
      taken.add(front)
      front.take(spec, holds)
      for (const key of keys) byBind.set(key, front)
    }
    this.#byBind = byBind
  }
}

const turnedAwayBy = {
  PR: 'source range or traffic policy',
  RC: 'no file descriptor',
} as const

/** The record of a client that was accepted and not dialled for: `PR` if `Front.admit` says so. */
export const turnedAway = (
  listener: string,
  client: string,
  cause: keyof typeof turnedAwayBy,
): ConnectionRecord => ({
  listener,
  client,
  endpoint: '',
  attempts: [],
  bytesToBackend: 0,
  bytesToClient: 0,
  dialMs: 0,
  totalMs: 0,
  cause,
  detail: turnedAwayBy[cause],
})
