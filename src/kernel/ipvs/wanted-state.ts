import {
  type ServicePort,
  type Snapshot,
  type Vip,
  type Endpoint,
  isInternal,
  type Target,
} from '../../model/snapshot.ts'
import { Uses } from '../elements/uses.ts'
import { forEachYielding } from '../../util/list-diff.ts'
import { type ServerId, isUdp, serverId } from './server-id.ts'
import {
  type SetKind,
  setKinds,
  creation,
  maxEntries,
  setName,
  setType,
  spareName,
  vipSetKinds,
} from './set-names.ts'
import { type IpFamily, joinHostPort } from '../../util/ip.ts'
import { flowKeepers } from '../../model/service.ts'

interface Had {
  readonly servicePort: ServicePort
  readonly compiled: Compiled
}

/** What the kernel should have of one family, kept up from snapshot to snapshot. */
export class WantedState {
  readonly #settings: CompileSettings
  readonly #had = new Map<string, Had>()
  readonly #claims = new Map<ServerId, ServerClaim[]>()
  readonly #sets: ReadonlyMap<SetKind, Uses>
  readonly #healthPorts = new Set<string>()
  readonly addresses = new Uses()

  constructor(settings: CompileSettings) {
    this.#settings = settings
    this.#sets = new Map(setKinds.map(kind => [kind, new Uses()]))
  }

  server(id: ServerId): ServerClaim | undefined {
    const claims = this.#claims.get(id)
    return claims?.find(({ isNodePort }) => !isNodePort) ?? claims?.[0]
  }

  /** What one VIP needs, wanted or not. */
  compiledFor(servicePort: ServicePort, vip: Vip): Compiled {
    return compile({ ...servicePort, vips: [vip] }, this.#settings)
  }

  set(kind: SetKind): Uses {
    const set = this.#sets.get(kind)
    if (set === undefined) throw new Error(`no set ${kind}`)
    return set
  }

  /** Gives what may be different now; costs what changed, by `===` of ServicePorts. */
  async take(snapshot: Snapshot): Promise<Touched> {
    const touched = new Touched()
    const { servicePorts } = snapshot
    for (const [key, { compiled }] of this.#had)
      if (!servicePorts.has(key)) {
        this.#had.delete(key)
        this.#remove(compiled, touched)
      }
    await forEachYielding(servicePorts, ([key, servicePort]) => {
      const before = this.#had.get(key)
      if (before?.servicePort === servicePort) return
      const compiled = compile(servicePort, this.#settings)
      this.#had.set(key, { servicePort, compiled })
      // First, so that what both need is there all the time.
      this.#add(compiled, touched)
      if (before !== undefined) this.#remove(before.compiled, touched)
    })
    this.#takeHealthPorts(snapshot, touched)
    return touched
  }

  #add({ servers, entries, addresses }: Compiled, touched: Touched): void {
    for (const claim of servers) {
      touched.servers.add(claim.id)
      const claims = this.#claims.get(claim.id)
      // The newest first: it takes the place of the one that is about to go.
      if (claims === undefined) this.#claims.set(claim.id, [claim])
      else claims.unshift(claim)
    }
    for (const entry of entries) this.#addEntry(entry, touched)
    for (const address of addresses) {
      this.addresses.add(address)
      touched.addresses.add(address)
    }
  }

  #remove({ servers, entries, addresses }: Compiled, touched: Touched): void {
    for (const claim of servers) {
      touched.servers.add(claim.id)
      const left = this.#claims.get(claim.id)?.filter(other => other !== claim) ?? []
      if (left.length === 0) this.#claims.delete(claim.id)
      else this.#claims.set(claim.id, left)
    }
    for (const entry of entries) this.#removeEntry(entry, touched)
    for (const address of addresses) {
      this.addresses.remove(address)
      touched.addresses.add(address)
    }
  }

  #takeHealthPorts({ healthChecks }: Snapshot, touched: Touched): void {
    const now = new Set(Array.from(healthChecks.values(), ({ port }) => String(port)))
    const kind = 'HEALTH-CHECK-NODE-PORT'
    for (const port of this.#healthPorts) {
      if (now.has(port)) continue
      this.#healthPorts.delete(port)
      this.#removeEntry([kind, port], touched)
    }
    for (const port of now) {
      if (this.#healthPorts.has(port)) continue
      this.#healthPorts.add(port)
      this.#addEntry([kind, port], touched)
    }
  }

  #addEntry([kind, entry]: SetEntry, touched: Touched): void {
    this.set(kind).add(entry)
    touched.entry(kind, entry)
  }

  #removeEntry([kind, entry]: SetEntry, touched: Touched): void {
    this.set(kind).remove(entry)
    touched.entry(kind, entry)
  }
}

/** A virtual server as the kernel has it. */
export interface KnownServer {
  /** Its options, in the words of ipvsadm(8). */
  how: string
  /** The weight of each destination; -1 for one that is not reached by masquerading. */
  readonly destinations: Map<string, number>
}

export interface KnownSet {
  /** What it was made with; undefined when there is none. */
  creation: string | undefined
  entries: Set<string>
}

/** What the kernel has of one family; others' virtual servers, sets, and devices left out. */
export interface KnownState {
  readonly servers: Map<ServerId, KnownServer>
  readonly sets: Map<SetKind, KnownSet>
  /** On kube-ipvs0. */
  readonly addresses: Set<string>
}

/** Where the kernel may differ from what is wanted; nowhere else. */
export class Touched {
  readonly servers = new Set<ServerId>()
  readonly addresses = new Set<string>()
  readonly sets = new Map<SetKind, Set<string>>()

  entry(kind: SetKind, entry: string): void {
    const entries = this.sets.get(kind)
    if (entries === undefined) this.sets.set(kind, new Set([entry]))
    else entries.add(entry)
  }

  /** All that the kernel has. */
  async known({ servers, addresses, sets }: KnownState): Promise<void> {
    await forEachYielding(servers.keys(), id => void this.servers.add(id))
    await forEachYielding(addresses, address => void this.addresses.add(address))
    for (const [kind, { entries }] of sets)
      await forEachYielding(entries, entry => this.entry(kind, entry))
  }
}

/** A destination that gets nothing new, and goes once its connections have ended. */
export interface Draining {
  readonly id: ServerId
  readonly destination: string
}

/** What makes some virtual servers what they should be. */
interface ServerChanges {
  /** For `ipvsadm -R`. */
  readonly lines: string[]
  readonly draining: Draining[]
}

/**
 * The difference, which `known` has from then on. What is not wanted any more of a server
 * that stays gets weight 0, so that connections to it go on; with a server that is not
 * wanted all of its connections end.
 */
export const serverChanges = async (
  ids: Iterable<ServerId>,
  wanted: (id: ServerId) => ServerClaim | undefined,
  known: KnownState,
): Promise<ServerChanges> => {
  const changes: ServerChanges = { lines: [], draining: [] }
  await forEachYielding(ids, id => {
    const claim = wanted(id)
    if (claim !== undefined) change(changes, claim, known)
    else if (known.servers.delete(id)) changes.lines.push(`-D ${id}`)
  })
  return changes
}

const change = (
  { lines, draining }: ServerChanges,
  { id, how, destinations, staying }: ServerClaim,
  known: KnownState,
): void => {
  const server = known.servers.get(id) ?? { how: '', destinations: new Map() }
  if (server.how !== how)
    lines.push(`${known.servers.has(id) ? '-E' : '-A'} ${id} ${how}`)
  server.how = how
  known.servers.set(id, server)
  for (const destination of destinations)
    if (server.destinations.get(destination) !== 1) {
      const verb = server.destinations.has(destination) ? '-e' : '-a'
      lines.push(`${verb} ${id} -r ${destination} -m -w 1`)
      server.destinations.set(destination, 1)
    }
  for (const destination of server.destinations.keys())
    if (!destinations.has(destination)) {
      if (isUdp(id) && !staying.has(destination))
        lines.push(removal({ id, destination }, server))
      else {
        if (server.destinations.get(destination) !== 0)
          lines.push(`-e ${id} -r ${destination} -m -w 0`)
        server.destinations.set(destination, 0)
        // UDP flows have no end: they stay for as long as it serves.
        if (!isUdp(id)) draining.push({ id, destination })
      }
    }
}

/** Takes a destination out. */
export const removal = (
  { id, destination }: Draining,
  { destinations }: KnownServer,
): string => {
  destinations.delete(destination)
  return `-d ${id} -r ${destination}`
}

/** What makes sets what they should be. */
interface SetChanges {
  /** For `ipset restore -exist`. */
  readonly first: readonly string[]
  /**
   * The same, once virtual servers are as they should be: by these entries those that were
   * made for a Service are known, also to the next process.
   */
  readonly last: readonly string[]
  /** Sets that more would have to go into than fit. */
  readonly tooSmall: readonly SetKind[]
}

const namesServers: ReadonlySet<SetKind> = new Set([
  ...vipSetKinds,
  'NODE-PORT-TCP',
  'NODE-PORT-UDP',
])

/** The difference, which `known` has from then on. */
export const setChanges = async (
  family: IpFamily,
  touched: Touched,
  wanted: WantedState,
  known: KnownState,
): Promise<SetChanges> => {
  const [made, removed, last]: [string[], string[], string[]] = [[], [], []]
  const tooSmall: SetKind[] = []
  for (const kind of setKinds) {
    const name = setName(family, kind)
    const [is, should] = [knownSet(known, kind), wanted.set(kind)]
    const words = creation(family, setType(kind))
    const before = is.creation
    if (before === undefined) made.push(`create ${name} ${words}`)
    const isReplaced = before !== undefined && before !== words
    // Rules may be using it: no packet is to see it empty.
    const spare = spareName(family)
    if (isReplaced) {
      is.entries = new Set()
      made.push(`create ${spare} ${words}`)
    }
    is.creation = words
    const to = isReplaced ? spare : name
    const gone: string[] = []
    await forEachYielding(touched.sets.get(kind) ?? [], entry => {
      if (!should.has(entry)) {
        if (is.entries.delete(entry)) gone.push(`del ${name} ${entry}`)
      } else if (!is.entries.has(entry) && is.entries.size < maxEntries) {
        is.entries.add(entry)
        made.push(`add ${to} ${entry}`)
      }
    })
    if (isReplaced) made.push(`swap ${spare} ${name}`, `destroy ${spare}`)
    if (namesServers.has(kind)) last.push(...gone)
    else removed.unshift(...gone)
    if (should.size > is.entries.size) tooSmall.push(kind)
  }
  return { first: [...made, ...removed], last, tooSmall }
}

const knownSet = ({ sets }: KnownState, kind: SetKind): KnownSet => {
  const is = sets.get(kind) ?? { creation: undefined, entries: new Set<string>() }
  sets.set(kind, is)
  return is
}

/** A virtual server as it should be. */
export interface ServerClaim {
  readonly id: ServerId
  /** Its options, in the words of ipvsadm(8): `-s rr -p 10800`. */
  readonly how: string
  /** `10.0.0.1:80`. */
  readonly destinations: ReadonlySet<string>
  /** Of UDP, others that still serve: those that are there keep their flows. */
  readonly staying: ReadonlySet<string>
  /** Gives way to another claim: a VIP may be an address of the node's. */
  readonly isNodePort: boolean
}

/** All that one ServicePort needs in the kernel. */
export interface Compiled {
  readonly servers: readonly ServerClaim[]
  readonly entries: readonly SetEntry[]
  /** To be on kube-ipvs0. */
  readonly addresses: readonly string[]
}

type SetEntry = readonly [kind: SetKind, entry: string]

/** What is the same for all ServicePorts. */
export interface CompileSettings {
  readonly scheduler: string
  /** Of the node: those that answer node ports. */
  readonly nodePortAddresses: readonly string[]
  /** Those that other devices have, and that need not be on kube-ipvs0. */
  readonly elsewhere: ReadonlySet<string>
}

const compile = (servicePort: ServicePort, settings: CompileSettings): Compiled => {
  const addresses = servicePort.vips
    .filter(
      ({ kind, address }) => kind !== 'NodePort' && !settings.elsewhere.has(address),
    )
    .map(({ address }) => address)
  const targets = vipTargets(servicePort, settings)
  const { protocol, endpoints } = servicePort
  const staying = destinationsOf(protocol === 'UDP' ? flowKeepers(endpoints) : [])
  const servers = targets.map(({ vip, target, address }) => ({
    id: serverId(protocol, address, vip.port),
    how: optionsOf(settings.scheduler, servicePort.affinityMs),
    destinations: destinationsOf(target.endpoints),
    staying,
    isNodePort: vip.kind === 'NodePort',
  }))
  const entries = [
    ...targets.flatMap(({ vip, address }) => vipEntries(servicePort, vip, address)),
    ...servicePort.vips.flatMap(vip => nodePortEntries(servicePort, vip, settings)),
    ...hairpinEntries(servicePort, targets),
    ...addresses.map(address => ['IPVS-IPS', address] as const),
  ]
  return { servers, entries, addresses }
}

interface VipTarget {
  readonly vip: Vip
  readonly target: Target
  readonly address: string
}

const vipTargets = (
  { vips, internal, external, externalFromNode }: ServicePort,
  { nodePortAddresses }: CompileSettings,
): readonly VipTarget[] => {
  // Those from outside are kept out by a rule; a virtual server has one list for the rest.
  const outer = external.verdict === 'drop' ? externalFromNode : external
  return vips.flatMap(vip => {
    const target = isInternal(vip) ? internal : outer
    const addresses = vip.kind === 'NodePort' ? nodePortAddresses : [vip.address]
    return addresses.map(address => ({ vip, target, address }))
  })
}

const destinationsOf = (endpoints: readonly Endpoint[]): ReadonlySet<string> =>
  new Set(endpoints.map(({ address, port }) => joinHostPort(address, port)))

/**
 * `mh` and `sh` go by the client's address alone; kube-proxy has `mh` count the port in
 * (`mh-port`), or else one client would get one endpoint.
 */
const optionsOf = (scheduler: string, affinityMs: number): string => {
  const flags = scheduler === 'mh' ? ' -b mh-port' : ''
  const seconds = Math.ceil(affinityMs / 1000)
  return `-s ${scheduler}${flags}${seconds > 0 ? ` -p ${seconds}` : ''}`
}

const vipEntries = (
  servicePort: ServicePort,
  { kind, port }: Vip,
  address: string,
): readonly SetEntry[] => {
  const { internal, external, externalTrafficPolicy } = servicePort
  const entry = `${address},${servicePort.protocol.toLowerCase()}:${port}`
  const isLocal = externalTrafficPolicy === 'Local'
  const entries: SetEntry[] = []
  if (kind === 'ClusterIP') {
    entries.push(['CLUSTER-IP', entry])
    if (internal.verdict === 'drop') entries.push(['CLUSTER-IP-DROP', entry])
    return entries
  }
  if (kind === 'ExternalIP')
    entries.push([isLocal ? 'EXTERNAL-IP-LOCAL' : 'EXTERNAL-IP', entry])
  if (kind === 'LoadBalancerIP') {
    entries.push(['LOAD-BALANCER', entry])
    if (isLocal) entries.push(['LOAD-BALANCER-LOCAL', entry])
    entries.push(...rangeEntries(servicePort, entry, address))
  }
  if (external.verdict === 'drop') entries.push(['EXTERNAL-DROP', entry])
  return entries
}

/** Whole addresses stand in sets without their length. */
const wholeAddress = /\/(?:32|128)$/

const rangeEntries = (
  { sourceRanges, family }: ServicePort,
  entry: string,
  address: string,
): readonly SetEntry[] => {
  if (sourceRanges === undefined) return []
  const whole = family === 'IPv4' ? '/32' : '/128'
  return [
    ['LOAD-BALANCER-FW', entry],
    ...sourceRanges.map((range): SetEntry => {
      const text = range.endsWith(whole) ? range.replace(wholeAddress, '') : range
      const kind =
        text === address ? 'LOAD-BALANCER-SOURCE-IP' : 'LOAD-BALANCER-SOURCE-CIDR'
      return [kind, `${entry},${text}`]
    }),
  ]
}

const nodePortEntries = (
  { protocol, externalTrafficPolicy }: ServicePort,
  { kind, port }: Vip,
  { nodePortAddresses }: CompileSettings,
): readonly SetEntry[] => {
  if (kind !== 'NodePort') return []
  const isLocal = externalTrafficPolicy === 'Local'
  if (protocol === 'SCTP')
    return nodePortAddresses.flatMap((address): readonly SetEntry[] => {
      const entry = `${address},sctp:${port}`
      const local: readonly SetEntry[] = [['NODE-PORT-LOCAL-SCTP-HASH', entry]]
      return [['NODE-PORT-SCTP-HASH', entry], ...(isLocal ? local : [])]
    })
  const local: readonly SetEntry[] = [[`NODE-PORT-LOCAL-${protocol}`, String(port)]]
  return [[`NODE-PORT-${protocol}`, String(port)], ...(isLocal ? local : [])]
}

/** A pod that gets to itself through a Service must not see its own address as the client. */
const hairpinEntries = (
  { protocol }: ServicePort,
  targets: readonly VipTarget[],
): readonly SetEntry[] => {
  const lists = new Set(targets.map(({ target }) => target.endpoints))
  const endpoints = new Set([...lists].flat())
  return Array.from(endpoints, ({ address, port }): SetEntry => {
    return ['LOOP-BACK', `${address},${protocol.toLowerCase()}:${port},${address}`]
  })
}
