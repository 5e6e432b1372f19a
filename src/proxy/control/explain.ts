import { boundClients, type InspectCommand } from '../../kernel/proxier.ts'
import type { Protocol, TrafficPolicy } from '../../model/service.ts'
import { bindText, type PortView, timesOf, viewOf } from '../../observe/port-view.ts'
import type { Explanation, EndpointView, WorkerView } from '../../relay/explanation.ts'
import {
  type AddressPort,
  canonicalIp,
  familyOf,
  isWildcard,
  splitHostPort,
  joinHostPort,
  isLoopback,
} from '../../util/ip.ts'
import { canonicalUnix, isUnix, unixPeer, unixPlace } from '../../util/unix-address.ts'
import { onLoopback } from '../cluster-facts.ts'
import { type ControlDeps, type Handler, Refusal } from './carry-out.ts'
import { shortName } from './named-service-ports.ts'
import { schedulerOf } from '../../kernel/ipvs/ipvs-deps.ts'
import {
  type Endpoint,
  type ServicePort,
  isInternal,
  type Target,
  type Vip,
} from '../../model/snapshot.ts'
import { leftOutReasons } from '../../model/topology.ts'
import type { AnswerOf } from '../../observe/control-protocol.ts'
import { vipGroups } from '../../capture/vip-group.ts'
import { NodeClientSet } from '../../relay/node-clients.ts'
import { isAmong, rangesOf } from '../../util/address-ranges.ts'
import { addressWords } from '../../util/cidr.ts'
import type { Placement, VipPlacement } from '../../capture/capture.ts'
import { isOwnAddress } from '../../capture/local-addresses.ts'

/** Which endpoint a client would get at an address, and why not another. Changes nothing. */
export const explain: Handler<'explain'> = async (deps, request) => {
  const client = addressOf(request.client)
  const dialled = placeOf(request.address)
  if (isUnix(client) !== isUnix(dialled.address))
    throw bad(
      isUnix(client)
        ? `"${unixPeer}" is who dials a unix socket; give the client's IP address`
        : `who dials a unix socket has no address: the client is "${unixPeer}"`,
    )
  if (client.includes(':') !== dialled.address.includes(':'))
    throw bad(`${client} and ${dialled.address} are not of one IP family`)
  const protocol = request.protocol.toUpperCase() as Protocol
  const vip = dialledVip(deps.mode.placements, dialled, protocol)
  rejectUnserved(deps, vip, dialled)
  const { servicePort, placed } = vip
  const forClient = clientTarget(deps, vip, client)
  const [explanation, input] = await Promise.all([
    askRelay(deps, vip, client, dialled),
    deps.around.status(),
  ])
  const view = viewOf(servicePort, input)
  const isOpen = explanation?.closed === ''
  const coming = isOpen ? explanation.workers.filter(({ mayCome }) => mayCome) : []
  const epoch = Date.now()
  const at = (ms: number): string => new Date(epoch + ms).toISOString()
  const looks = [
    ...deps.around.connectTime.inspectCommands(servicePort, placed.vip),
    ...(placed.capture === 'kernel'
      ? (deps.mode.inspectCommands?.(servicePort, placed.vip) ?? [])
      : []),
  ]
  return {
    client,
    address: bindText(dialled),
    protocol,
    route: shortName(servicePort.name),
    addressKind: placed.vip.kind,
    state: view.condition.state,
    reason: view.condition.reason,
    capture: placed.capture,
    listen: placed.binds.map(bindText).join(', '),
    verdict: explainedVerdict(vip, forClient, explanation, coming),
    balance: explanation?.by ?? deps.mode.name,
    affinityMs: servicePort.affinityMs,
    picks: coming.map(({ thread, outcome, reason, waitMs, candidates, affinity }) => ({
      worker: thread,
      outcome,
      why: reason,
      waitMs,
      endpoints: candidates,
      affinity: affinity ? { endpoint: affinity.key, until: at(affinity.leftMs) } : null,
    })),
    endpoints: explainedEndpoints(deps, view, forClient, { explanation, coming }, at),
    looks,
    notes: notesOf(vip, explanation, looks),
  }
}

const bad = (reason: string): Refusal => new Refusal(400, 'BAD_REQUEST', reason)

const addressOf = (text: string): string => {
  if (text === unixPeer) return text
  const found = canonicalIp(text)
  if (found === undefined)
    throw bad(`${JSON.stringify(text)} is not an IP address, as in 10.0.0.1`)
  return found
}

const placeOf = (text: string): AddressPort => {
  if (isUnix(text)) return { address: canonicalUnix(text), port: 0 }
  const { host, port } = splitHostPort(text) ?? { host: '', port: 0 }
  const address = canonicalIp(host)
  if (address === undefined || port === 0)
    throw bad(
      `${JSON.stringify(text)} is no address, as in 10.96.0.10:80 or [fd00::1]:80`,
    )
  return { address, port }
}

/** Undefined where no relay is on the way. */
const askRelay = async (
  { relay }: ControlDeps,
  { listenerId, placed }: DialledVip,
  client: string,
  { address }: AddressPort,
): Promise<Explanation | undefined> => {
  const bind =
    placed.binds.find(one => one.address === address) ??
    placed.binds.find(one => isWildcard(one.address)) ??
    placed.binds[0]
  if (bind === undefined) return undefined
  const dialled = isWildcard(bind.address) ? address : bind.address
  return relay()?.query('explain', { listener: listenerId, bind, client, dialled })
}

const notesOf = (
  { servicePort: { acceptProxy, serverNames }, placed }: DialledVip,
  explanation: Explanation | undefined,
  looks: readonly InspectCommand[],
): readonly string[] => [
  ...(placed.reason === '' ? [] : [placed.reason]),
  ...(explanation !== undefined && acceptProxy !== undefined
    ? [
        'for a connection through a proxy, the client is the one that the PROXY protocol header names',
      ]
    : []),
  ...(explanation !== undefined && serverNames !== undefined
    ? [
        'TLS clients get endpoints by the server that they ask for; this is for all others',
      ]
    : []),
  ...(looks.some(({ what }) => what.startsWith(boundClients))
    ? [
        `which endpoint the kernel has for this client by affinity is not read; see "${boundClients}" below`,
      ]
    : []),
]

type Explained = AnswerOf<'explain'>['endpoints'][number]

interface Views {
  readonly explanation: Explanation | undefined
  readonly coming: readonly WorkerView[]
}

/**
 * Each endpoint, with why such a client does not get it. `explanation`: the relay's, undefined where the
 * kernel draws; `coming`: of the workers that the client may come to. `at`: the time so many
 * milliseconds from now.
 */
const explainedEndpoints = (
  deps: ControlDeps,
  { servicePort, checkOf }: PortView,
  { target, policy }: ClientTarget,
  { explanation, coming }: Views,
  at: (ms: number) => string,
): readonly Explained[] => {
  const { around, orders } = deps
  const left = leftOutReasons(servicePort.endpoints, policy, around.place())
  const ofTarget = new Set(target.endpoints)
  const workers = explanation?.workers ?? []
  // Those that a client can't come to know as much of most things.
  const [of] = coming.length > 0 ? coming : workers
  const views = new Map(of?.endpoints.map(one => [one.key, one]))
  const failures = lastFailures(workers)
  const next = new Set(coming.flatMap(({ candidates }) => candidates))
  const isEven = explanation === undefined && drawsEvenly(deps, servicePort)
  const most = servicePort.capacity?.maxConnections ?? null
  const reasonOf = (endpoint: Endpoint, seen: EndpointView | undefined): string => {
    if (!ofTarget.has(endpoint)) return left.get(endpoint) ?? 'not listed'
    if (explanation === undefined) return ''
    if (of === undefined) return 'not known'
    return seen === undefined ? 'not listed' : seen.against
  }
  return servicePort.endpoints.map(endpoint => {
    const key = bindText(endpoint)
    const seen = views.get(key)
    const reason = reasonOf(endpoint, seen)
    const drain = orders.get('drain', servicePort.name, key)
    const failure = failures.get(key)
    const check = checkOf?.(key)
    return {
      endpoint: key,
      serves: reason === '',
      next: next.has(key),
      reason,
      node: endpoint.nodeName,
      zone: endpoint.zone,
      tier: seen?.tier ?? endpoint.tier ?? 0,
      weight: seen?.weight ?? endpoint.weight ?? 1,
      chance: isEven && reason === '' ? 1 / ofTarget.size : null,
      cooldownUntil:
        seen !== undefined && seen.cooldownMs > 0 ? at(seen.cooldownMs) : null,
      tried: seen?.isProbed ?? false,
      failures: seen?.failures ?? 0,
      failure: failure ? { why: failure.reason, at: at(-failure.agoMs) } : null,
      connections: seen?.connections ?? 0,
      mostConnections: most,
      drained: drain ? timesOf(drain) : null,
      check: check === undefined ? null : check.reason,
      isDown: check?.up === false,
    }
  })
}

/** Whether the kernel gives each endpoint as many of its clients as another. */
const drawsEvenly = (
  { mode, options }: ControlDeps,
  { affinityMs }: ServicePort,
): boolean => {
  if (affinityMs > 0) return false
  const { ipvs } = options.kernel ?? {}
  return mode.name !== 'ipvs' || ipvs === undefined || schedulerOf(ipvs) === 'rr'
}

type Failure = NonNullable<EndpointView['lastFailure']>

/** By endpoint, the last one in any worker. */
const lastFailures = (workers: readonly WorkerView[]): ReadonlyMap<string, Failure> => {
  const failures = new Map<string, Failure>()
  for (const { key, lastFailure } of workers.flatMap(({ endpoints }) => endpoints)) {
    const known = failures.get(key)
    if (lastFailure !== undefined && lastFailure.agoMs < (known?.agoMs ?? Infinity))
      failures.set(key, lastFailure)
  }
  return failures
}

type Verdict = AnswerOf<'explain'>['verdict']

/** What becomes of the client's connection, whatever endpoint it would get. */
const explainedVerdict = (
  { placed }: DialledVip,
  { target, by, isOutside }: ClientTarget,
  explanation: Explanation | undefined,
  coming: readonly WorkerView[],
): Verdict => {
  const { verdict } = target
  const isKernel = placed.capture === 'kernel'
  const why = isOutside
    ? 'the client is in none of loadBalancerSourceRanges'
    : verdict === 'drop'
      ? `no endpoint on this node (${by})`
      : verdict === 'reject'
        ? 'no endpoint is ready'
        : by
  if (placed.capture === 'not captured') return { action: 'refuse', why: placed.reason }
  if (isKernel && isOutside) return { action: 'drop', why }
  if (isKernel) return { action: verdict === 'reject' ? 'refuse' : verdict, why }
  if (explanation === undefined) return { action: 'refuse', why: 'there is no relay' }
  if (explanation.closed !== '')
    return {
      action: 'refuse',
      why: isOutside || verdict !== 'forward' ? why : explanation.closed,
    }
  // One worker that serves is enough: the client comes to any.
  const best = coming.find(({ outcome }) => outcome === 'served') ?? coming[0]
  if (best === undefined)
    return { action: 'refuse', why: 'no worker of the relay answers' }
  if (best.outcome === 'served') return { action: 'forward', why }
  const reason = refusalTexts[best.reason] ?? `over the limit ${best.reason}`
  const whole =
    best.reason === 'not allowed' && isOutside
      ? why
      : best.reason === 'no endpoint' && verdict !== 'forward'
        ? why
        : reason
  return { action: best.outcome === 'refused' ? 'refuse' : 'wait', why: whole }
}

const refusalTexts: Readonly<Record<string, string>> = {
  '': 'nothing prevents it',
  prober: 'it is one of the probers, whose connections are accepted and closed',
  'not allowed': 'the client is not in the list of those that may connect',
  'no endpoint': 'no endpoint is left for it',
  paused: 'paused by order',
  full: 'each endpoint has as many connections as it may have',
  queue: 'others wait for a place at an endpoint, and come first',
  'too many wait': 'it would have to wait, but the limit of waiting clients is reached',
}

/** Which of a ServicePort's targets a client gets, and what decides that. */
interface ClientTarget {
  readonly target: Target
  readonly policy: TrafficPolicy
  /** `internalTrafficPolicy Cluster`. */
  readonly by: string
  /** It is in none of the source ranges. */
  readonly isOutside: boolean
}

const clientTarget = (
  { around }: ControlDeps,
  { servicePort, placed: { vip } }: DialledVip,
  client: string,
): ClientTarget => {
  const { internal, external, externalFromNode, sourceRanges } = servicePort
  const { internalTrafficPolicy, externalTrafficPolicy } = servicePort
  if (isInternal(vip)) {
    const by =
      vip.kind === 'Route'
        ? 'a route has no traffic policy'
        : `internalTrafficPolicy ${internalTrafficPolicy}`
    return { target: internal, policy: internalTrafficPolicy, by, isOutside: false }
  }
  const isGuarded = vipGroups(servicePort)[vip.kind] === 'load-balancer'
  const words = addressWords(client) ?? []
  const isOutside =
    isGuarded && sourceRanges !== undefined && !isAmong(rangesOf(sourceRanges), words)
  const onNode = new NodeClientSet()
  onNode.set(around.nodeClients())
  const by = `externalTrafficPolicy ${externalTrafficPolicy}`
  if (externalTrafficPolicy === 'Cluster' || !onNode.has(client))
    return { target: external, policy: externalTrafficPolicy, by, isOutside }
  const spared = `${by}, which spares clients on this node`
  return { target: externalFromNode, policy: 'Cluster', by: spared, isOutside }
}

/** An address that is served, as a client dials it. */
interface DialledVip {
  readonly servicePort: ServicePort
  readonly listenerId: string
  readonly placed: VipPlacement
}

const mostNamed = 5

/** What is at an address; an own address of a VIP goes before node ports. Throws a Refusal with what is near it. */
const dialledVip = (
  placements: readonly Placement[],
  dialled: AddressPort,
  protocol: Protocol,
): DialledVip => {
  const all = placements.flatMap(({ servicePort, listenerId, vips }) =>
    vips.map((placed): DialledVip => ({ servicePort, listenerId, placed })),
  )
  const ofProtocol = all.filter(({ servicePort }) => servicePort.protocol === protocol)
  const isAt = ({ placed: { vip } }: DialledVip): boolean =>
    vip.port === dialled.port && unixPlace(vip.address) === unixPlace(dialled.address)
  const onAny = ({ placed: { vip } }: DialledVip): boolean =>
    vip.port === dialled.port &&
    isWildcard(vip.address) &&
    familyOf(vip.address) === familyOf(dialled.address) &&
    isOwnAddress(dialled.address)
  const found = ofProtocol.find(isAt) ?? ofProtocol.find(onAny)
  if (found !== undefined) return found
  const text = `${joinHostPort(dialled.address, dialled.port)} (${protocol})`
  const near = nearest(all, dialled)
  throw new Refusal(404, 'UNKNOWN_ADDRESS', `nothing is served at ${text}; ${near}`)
}

/**
 * Throws a Refusal for a node port on loopback that no rule of the kernel's leads on. What the relay serves
 * there has a placement of its own; processes of the node may be led by connect-time steering.
 */
const rejectUnserved = (
  { mode: { name }, options, around }: ControlDeps,
  { servicePort, placed: { vip, capture } }: DialledVip,
  { address }: AddressPort,
): void => {
  if (capture !== 'kernel' || vip.kind !== 'NodePort' || !isLoopback(address)) return
  const isLed =
    name !== 'nftables' && onLoopback(name, options.kernel)(servicePort.family)
  if (isLed || around.connectTime.inspectCommands(servicePort, vip).length > 0) return
  const flag = name === 'ipvs' ? '' : `, or see --${name}-localhost-nodeports`
  throw new Refusal(
    404,
    'UNKNOWN_ADDRESS',
    `${name} mode serves no node ports at ${address}: dial an address of the node${flag}`,
  )
}

const nearest = (all: readonly DialledVip[], { address, port }: AddressPort): string => {
  const there = all.filter(
    ({ placed: { vip } }) => unixPlace(vip.address) === unixPlace(address),
  )
  if (there.length > 0) return `${address} has ${namesOf(there)}`
  const isNear = ({ kind, ...vip }: Vip): boolean =>
    vip.port === port && (kind === 'NodePort' || isWildcard(vip.address))
  const wild = all.filter(({ placed: { vip } }) => isNear(vip))
  if (wild.length > 0)
    return isOwnAddress(address)
      ? `${port} is ${namesOf(wild)}`
      : `${port} is ${namesOf(wild)}, and ${address} is no address of this node`
  return 'no Service or route has this address; usher get listeners lists those that are served'
}

const namesOf = (some: readonly DialledVip[]): string => {
  const names = some.map(({ servicePort, placed: { vip } }) => {
    const what = vip.kind === 'NodePort' ? 'the node port' : 'port'
    const at = isUnix(vip.address) ? vip.address : `${what} ${vip.port}`
    return `${at} (${servicePort.protocol}) of ${shortName(servicePort.name)}`
  })
  const more = names.length - mostNamed
  return names.slice(0, mostNamed).join(', ') + (more > 0 ? ` and ${more} more` : '')
}
