import type { Capture, Placement } from '../capture/capture.ts'
import type { Endpoint, Problem, Snapshot } from '../model/snapshot.ts'
import { bindKey } from '../relay/counters.ts'
import type { Bind, Relay, RelayEndpoint, RelayListener } from '../relay/relay.ts'
import { joinHostPort } from '../util/ip.ts'
import { type Loop, withoutLoops } from './loops.ts'

/** The userspace mode: a capture that says where to listen, and a relay that does. */
export class UserspaceMode {
  readonly #capture: Capture
  readonly #relay: Relay
  readonly #isLocal: (address: string) => boolean
  #placements: readonly Placement[] = []
  #problems: readonly Problem[] = []

  /** `isLocal`: whether an address is one of this host's. */
  constructor(capture: Capture, relay: Relay, isLocal: (address: string) => boolean) {
    this.#capture = capture
    this.#relay = relay
    this.#isLocal = isLocal
  }

  /** How each VIP of the last sync is served. */
  get placements(): readonly Placement[] {
    return this.#placements
  }

  /** What of the last sync could not be honoured. */
  get problems(): readonly Problem[] {
    return this.#problems
  }

  /** Makes listeners and endpoints equal to the wanted state of all families. */
  async sync(snapshots: readonly Snapshot[]): Promise<void> {
    const servicePorts = snapshots.flatMap(({ servicePorts: all }) => [...all.values()])
    this.#placements = await this.#capture.place(servicePorts)
    const wanted = this.#placements.map(listenerOf)
    const { listeners, loops } = withoutLoops(wanted, this.#isLocal)
    this.#problems = loops.map(loopProblem)
    await this.#relay.apply(listeners)
  }
}

const listenerOf = ({ servicePort, listenerId, vips }: Placement): RelayListener => ({
  id: listenerId,
  name: servicePort.name,
  protocol: servicePort.protocol,
  binds: uniqueBinds(vips.flatMap(({ binds }) => binds)),
  endpoints: servicePort.reachable.map(relayEndpoint),
  affinityMs: servicePort.affinityMs,
})

/** VIPs without an address of their own share the ServicePort's one proxy port. */
const uniqueBinds = (binds: readonly Bind[]): Bind[] => [
  ...new Map(binds.map(bind => [bindKey(bind), bind])).values(),
]

const relayEndpoint = ({ address, port }: Endpoint): RelayEndpoint => ({
  key: joinHostPort(address, port),
  address,
  port,
})

const loopProblem = ({ listener, endpoint }: Loop): Problem => ({
  object: `Service ${listener.name}`,
  field: 'endpoints',
  message: `endpoint ${endpoint.key} leads back to this Service; it is left out`,
})
