import {
  type Capture,
  listenerId,
  type Placement,
  type VipPlacement,
} from '../capture/capture.ts'
import { flowKeepers } from '../model/service.ts'
import type {
  Endpoint,
  Problem,
  ServicePort,
  Snapshot,
  Target,
} from '../model/snapshot.ts'
import { trafficOf } from '../model/traffic.ts'
import {
  type Bind,
  type DrainResult,
  type Relay,
  type RelayEndpoint,
  type RelayListener,
  bindKey,
  type EndpointChoice,
  type RelayFront,
} from '../relay/relay.ts'
import { holdsClients, usableEndpoints } from '../relay/open-fronts.ts'
import { joinHostPort } from '../util/ip.ts'
import { KeyedList } from '../util/keyed-list.ts'
import { unservedPlacement } from './placements.ts'
import { type Loop, LoopCutter } from './loops.ts'
import type { RelayMode } from './mode.ts'
import type { NodeClientsWatch } from './node-clients.ts'
import type { OperatorOrders } from './operator-orders.ts'
import { joinLists, listOfServicePorts } from '../model/service-port-list.ts'
import { sameTarget, type VipGroup, vipGroups } from '../capture/vip-group.ts'
import { rangesOf } from '../util/address-ranges.ts'

export interface UserspaceModeDeps {
  readonly capture: Capture
  readonly relay: Relay
  /** Whether an address is one of this host's. */
  readonly isLocal: (address: string) => boolean
  readonly nodeClients: Pick<NodeClientsWatch, 'poll' | 'stop'>
  readonly orders: Pick<OperatorOrders, 'apply'>
  /** Ends what goes with it: called by `close`, last. */
  readonly ended?: () => Promise<void>
}

/** The userspace mode: a capture that leads traffic to a relay that listens. */
export class UserspaceMode implements RelayMode {
  readonly name = 'userspace'
  readonly #deps: UserspaceModeDeps
  readonly #loops: LoopCutter
  readonly #listeners = new KeyedList<Placement, RelayListener>(
    placement => placement.listenerId,
  )
  readonly #uncarried = new KeyedList<ServicePort, Placement>(listenerId)
  #placements: readonly Placement[] = []
  #led: readonly Placement[] = []
  #problems: readonly Problem[] = []

  constructor(deps: UserspaceModeDeps) {
    this.#deps = deps
    this.#loops = new LoopCutter(deps.isLocal)
  }

  get placements(): readonly Placement[] {
    return this.#placements
  }

  get led(): readonly Placement[] {
    return this.#led
  }

  get problems(): readonly Problem[] {
    return [...this.#problems, ...this.#deps.capture.problems()]
  }

  async sync(snapshots: readonly Snapshot[]): Promise<void> {
    const { capture, relay, nodeClients, orders } = this.#deps
    const servicePorts = joinLists(snapshots.map(listOfServicePorts))
    const uncarried = servicePorts.filter(isSctp)
    const carried =
      uncarried.length === 0 ? servicePorts : servicePorts.filter(one => !isSctp(one))
    const placements = await capture.place(carried)
    const wanted = await this.#listeners.update(placements, listenerOf)
    const { listeners, loops } = await this.#loops.cut(wanted)
    const unserved = await this.#uncarried.update(uncarried, port =>
      unservedPlacement(port, noSctp),
    )
    this.#placements = unserved.length === 0 ? placements : [...placements, ...unserved]
    this.#problems = [...loops.map(loopProblem), ...uncarried.map(sctpProblem)]
    // Before the first client can come.
    nodeClients.poll()
    const ordered = orders.apply(listeners, servicePorts)
    this.#led = ledPlacements(placements, ordered, wanted)
    await relay.apply(ordered)
    await capture.steer(this.#led, snapshots)
  }

  async lend(): Promise<() => void> {
    return (await this.#deps.capture.lend?.()) ?? (() => {})
  }

  async drain(ms: number): Promise<DrainResult> {
    await this.#deps.capture.hold()
    return this.#deps.relay.drain(ms)
  }

  async close(): Promise<void> {
    const { capture, relay, nodeClients, ended } = this.#deps
    nodeClients.stop()
    try {
      await relay.drain(0)
      await capture.close()
    } finally {
      await ended?.()
    }
  }
}

const isSctp = ({ protocol }: ServicePort): boolean => protocol === 'SCTP'

const noSctp =
  'userspace mode has no SCTP, as Node has no sockets for it; nftables, iptables and ipvs mode serve it (--proxy-mode)'

const sctpProblem = ({ family, namespace, serviceName, vips }: ServicePort): Problem => ({
  object: `Service ${namespace}/${serviceName}`,
  field: 'spec.ports',
  message: `SCTP port ${vips[0]?.port ?? ''} (${family}) is not served: ${noSctp}`,
})

const listenerOf = (placement: Placement): RelayListener => ({
  id: placement.listenerId,
  name: placement.servicePort.name,
  protocol: placement.servicePort.protocol === 'UDP' ? 'UDP' : 'TCP',
  fronts: relayFronts(placement),
  endpoints: placement.servicePort.reachable.map(relayEndpoint),
  ...stayingOf(placement.servicePort),
  ...cutOf(placement.servicePort),
  affinityMs: placement.servicePort.affinityMs,
  ...trafficOf(placement.servicePort, placement.servicePort.protocol),
  steered: placement.vips.flatMap(steeredVip),
})

/** Endpoints that get no new clients and serve those that they have. */
const stayingOf = (servicePort: ServicePort): Pick<RelayListener, 'staying'> => {
  const { protocol, endpoints, reachable } = servicePort
  if (protocol !== 'UDP' || reachable.length === endpoints.length) return {}
  const listed = new Set(reachable)
  const staying = flowKeepers(endpoints).filter(each => !listed.has(each))
  if (staying.length === 0) return {}
  return { staying: staying.map(({ address, port }) => joinHostPort(address, port)) }
}

const cutOf = ({ endpoints }: ServicePort): Pick<RelayListener, 'cut' | 'backups'> => {
  const keysOf = (reason: Endpoint['cut']): readonly string[] =>
    endpoints
      .filter(({ cut }) => cut === reason)
      .map(({ address, port }) => joinHostPort(address, port))
  const [cut, backups] = [keysOf('down'), keysOf('backup')]
  return { ...(cut.length > 0 && { cut }), ...(backups.length > 0 && { backups }) }
}

const steeredVip = ({ vip, capture }: VipPlacement): Bind[] =>
  capture === 'nftables' || capture === 'iptables'
    ? [{ address: vip.address, port: vip.port }]
    : []

const relayEndpoint = ({ address, port, tier, weight }: Endpoint): RelayEndpoint => {
  const key = joinHostPort(address, port)
  const isPlain = tier === undefined && weight === undefined
  return isPlain ? { key, address, port } : { key, address, port, tier, weight }
}

const loopProblem = ({ listener, endpoint }: Loop): Problem => ({
  object: `Service ${listener.name}`,
  field: 'endpoints',
  message: `endpoint ${endpoint.key} leads back to this Service; it is left out`,
})

/**
 * As rules are to have it; the three lists have the same order. `listeners`: with what was left out and
 * ordered, `wanted`: without. The same list where rules and endpoints say the same.
 */
const ledPlacements = (
  placements: readonly Placement[],
  listeners: readonly RelayListener[],
  wanted: readonly RelayListener[],
): readonly Placement[] => {
  let isSame = true
  const led = placements.map((placement, index) => {
    const listener = listeners[index]
    if (listener === undefined) return placement
    if (listener === wanted[index] && !holdsClients(listener)) return placement
    const one = ledPlacement(placement, listener)
    isSame &&= one === placement
    return one
  })
  return isSame ? placements : led
}

/**
 * Clients are led to where the relay listens, also to wait there. Others are refused, as a proxy port
 * without a listener would keep them waiting in silence. The same object where that makes no difference.
 */
const ledPlacement = (placement: Placement, listener: RelayListener): Placement => {
  const waits = listener.protocol === 'TCP' && holdsClients(listener)
  const usable = usableEndpoints(listener)
  const targetOf = (target: Target): Target => {
    // Policy Local: there are endpoints elsewhere.
    if (target.verdict === 'drop' && usable.size > 0) return target
    const isServed =
      waits ||
      target.endpoints.some(one => usable.has(joinHostPort(one.address, one.port)))
    const verdict = isServed ? 'forward' : 'reject'
    return verdict === target.verdict ? target : { verdict, endpoints: [] }
  }
  const { servicePort } = placement
  const internal = targetOf(servicePort.internal)
  const external = targetOf(servicePort.external)
  const externalFromNode = targetOf(servicePort.externalFromNode)
  const isSame =
    internal === servicePort.internal &&
    external === servicePort.external &&
    externalFromNode === servicePort.externalFromNode
  if (isSame) return placement
  return {
    ...placement,
    servicePort: { ...servicePort, internal, external, externalFromNode },
  }
}

/** The addresses of a placed ServicePort, together where their clients get the same. */
export const relayFronts = ({ servicePort, vips }: Placement): readonly RelayFront[] => {
  const groups = vipGroups(servicePort)
  const bindsOf = new Map<VipGroup, Map<string, Bind>>()
  const taken = new Set<string>()
  for (const { vip, binds } of vips) {
    const group = groups[vip.kind]
    const found = bindsOf.get(group) ?? new Map<string, Bind>()
    for (const bind of binds) {
      const key = bindKey(bind)
      // VIPs without an address of their own share a proxy port. A node port of UDP may
      // meet another VIP, which goes first as in kube-proxy's rules.
      if (!taken.has(key)) found.set(key, bind)
      taken.add(key)
    }
    if (found.size > 0) bindsOf.set(group, found)
  }
  return Array.from(bindsOf, ([group, binds]) => ({
    binds: [...binds.values()],
    ...rulesOf(servicePort, group),
  }))
}

type Rules = Omit<RelayFront, 'binds'>

const rulesOf = (servicePort: ServicePort, group: VipGroup): Rules => {
  const { internal, external, externalFromNode, sourceRanges } = servicePort
  if (group === 'internal') {
    return {
      endpoints: choiceOf(servicePort, internal),
      endpointsFromNode: undefined,
      allowedClients: undefined,
      closedReason: reasonOf(internal, 'internalTrafficPolicy'),
    }
  }
  const ranges = group === 'load-balancer' ? sourceRanges : undefined
  return {
    endpoints: choiceOf(servicePort, external),
    endpointsFromNode: sameTarget(external, externalFromNode)
      ? undefined
      : choiceOf(servicePort, externalFromNode),
    allowedClients: ranges && rangesOf(ranges),
    closedReason:
      ranges?.length === 0
        ? `no ${servicePort.family} range in loadBalancerSourceRanges`
        : reasonOf(external, 'externalTrafficPolicy'),
  }
}

const choiceOf = ({ reachable }: ServicePort, { endpoints }: Target): EndpointChoice =>
  endpoints.length === reachable.length
    ? 'all'
    : endpoints.map(({ address, port }) => joinHostPort(address, port))

const reasonOf = ({ verdict }: Target, policy: string): string =>
  verdict === 'drop' ? `no local endpoints (${policy}: Local)` : 'no endpoints'
