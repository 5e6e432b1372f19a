import { OwnCell } from '../../balance/cell.ts'
import { noReplies } from '../../balance/replies.ts'
import { noRest } from '../../balance/resting.ts'
import { joinHostPort } from '../../util/ip.ts'
import type { Backend } from '../backend.ts'
import { Counters } from '../counters.ts'
import { ListenerEndpoints } from '../listener-endpoints.ts'
import { closedState, holdsClients, openFronts } from '../open-fronts.ts'
import type {
  Bind,
  BindState,
  ListenerCounters,
  ListenerStats,
  RelayEndpoint,
  RelayListener,
} from '../relay.ts'
import { BindSet, type Listening } from '../bind-set.ts'
import { newWaitingPlaces } from '../waiting-places.ts'
import type { RelayEnv } from './port-listener.ts'

/** What TCP and UDP listeners have in common: endpoints, listening sockets and figures. */
export class ListenerState extends ListenerEndpoints<Backend> {
  readonly counters = new Counters()
  readonly binds: BindSet
  /** False once `apply` left it out. */
  wanted = true
  lastError = ''
  #spec: RelayListener
  readonly #env: RelayEnv

  constructor(
    env: RelayEnv,
    spec: RelayListener,
    open: (bind: Bind) => Promise<Listening>,
  ) {
    super(env.clock, env.random, env.nodeClients, env.limits)
    this.#env = env
    this.#spec = spec
    this.binds = new BindSet(env.budget, open, state => this.#bindChanged(state))
  }

  get spec(): RelayListener {
    return this.#spec
  }

  /** Takes over what is wanted now, and lets go of addresses that are not. */
  take(spec: RelayListener): void {
    this.#spec = spec
    this.wanted = true
    this.takeEndpoints(spec, (endpoint, _index, known) => {
      const backend = known ?? newBackend(endpoint)
      const counts = spec.retry?.expectsReplies === true
      backend.replies = counts ? (backend.replies ?? new OwnCell(noReplies)) : undefined
      return backend
    })
    if (holdsClients(spec)) this.places ??= newWaitingPlaces()
    const { open, closed } = openFronts(spec)
    this.binds.want(open, closed)
  }

  stopListening(reason: string): void {
    const binds = this.#spec.fronts.flatMap(front => front.binds)
    this.binds.want(
      [],
      binds.map(bind => closedState(bind, reason)),
    )
  }

  retire(): void {
    this.wanted = false
    this.binds.want([])
  }

  protected override tellAllFailed(): void {
    this.#env.observer.allFailed?.(this.#spec.name)
  }

  stats(counters: ListenerCounters): ListenerStats {
    const { id, name, protocol } = this.#spec
    return {
      id,
      name,
      protocol,
      counters: { ...counters, held: this.places?.taken ?? 0 },
      binds: this.binds.states(),
      endpoints: this.#endpoints(),
      lastError: this.lastError,
      wanted: this.wanted,
    }
  }

  #endpoints(): readonly Backend[] {
    const keys = new Set(this.#spec.endpoints.map(({ key }) => key))
    const backends = [...keys].flatMap(key => this.balancer.get(key) ?? [])
    for (const backend of backends) {
      backend.resting = this.balancer.isResting(backend)
    }
    return backends
  }

  #bindChanged(state: BindState): void {
    const where = `listen on ${joinHostPort(state.bind.address, state.bind.port)}: `
    if (state.state === 'failed') this.lastError = where + state.error
    else if (state.state === 'listening' && this.lastError.startsWith(where)) {
      this.lastError = ''
    }
    this.#env.observer.bindChanged(this.#spec.name, state)
  }
}

const newBackend = ({ key, address, port, tier, weight }: RelayEndpoint): Backend => ({
  key,
  address,
  port,
  tier,
  weight,
  active: 0,
  failures: 0,
  resting: false,
  rest: new OwnCell(noRest),
  replies: undefined,
})
