import type { Capture, Placement } from '../capture/capture.ts'
import type { Endpoint, Snapshot } from '../model/snapshot.ts'
import { bindKey } from '../relay/counters.ts'
import type { Bind, Relay, RelayEndpoint, RelayListener } from '../relay/relay.ts'
import { joinHostPort } from '../util/ip.ts'

/** The userspace mode: a capture that says where to listen, and a relay that does. */
export class UserspaceMode {
  readonly #capture: Capture
  readonly #relay: Relay
  #placements: readonly Placement[] = []

  constructor(capture: Capture, relay: Relay) {
    this.#capture = capture
    this.#relay = relay
  }

  /** How each VIP of the last sync is served. */
  get placements(): readonly Placement[] {
    return this.#placements
  }

  /** Makes listeners and endpoints equal to the wanted state of all families. */
  async sync(snapshots: readonly Snapshot[]): Promise<void> {
    const servicePorts = snapshots.flatMap(({ servicePorts: all }) => [...all.values()])
    this.#placements = await this.#capture.place(servicePorts)
    await this.#relay.apply(this.#placements.map(listenerOf))
  }
}

const listenerOf = ({ servicePort, listenerId, vips }: Placement): RelayListener => ({
  id: listenerId,
  name: servicePort.name,
  protocol: servicePort.protocol,
  binds: uniqueBinds(vips.flatMap(({ binds }) => binds)),
  endpoints: servicePort.eligible.map(relayEndpoint),
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
