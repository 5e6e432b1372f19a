import {
  balancerIP,
  clusterIP,
  clusterIPv6,
  externalIP,
  servicePorts,
  vipCount,
} from './addresses.ts'
import type { Cluster, ServiceOver } from './cluster.ts'
import type { Random } from './random.ts'
import { isBroken, labels, type RawService, vipMark } from './raw.ts'

/** What a change did, in words, and to which Service. */
export interface Done {
  readonly what: string
  readonly service: string
}

export type Change = (cluster: Cluster, random: Random) => Done | undefined

/** Services whose names begin so are never touched. */
export const steadyPrefix = 'steady'

/** Those that changes may be made to. */
export const changeable = (cluster: Cluster): RawService[] =>
  cluster.services.filter(({ metadata }) => !metadata.name.startsWith(steadyPrefix))

const mostServices = 20

export const createService: Change = (cluster, random) => {
  const all = cluster.services
  const vip = freeVip(all, random)
  if (vip === undefined || all.length >= mostServices) return undefined
  const names = Array.from({ length: vipCount }, (_, i) => `svc-${i}`)
  const taken = new Set(all.map(({ metadata }) => metadata.name))
  const name = random.pick(names.filter(each => !taken.has(each)))
  cluster.putService(name, vip, shape(vip, random))
  return { what: `create on ${vip}`, service: name }
}

export const deleteService: Change = (cluster, random) =>
  withOne(cluster, random, ({ metadata: { name } }) => {
    cluster.removeService(name)
    return 'delete'
  })

/** Another Service gets the addresses, in the same moment. */
export const replaceService: Change = (cluster, random) =>
  withOne(cluster, random, ({ metadata: { name } }, vip) => {
    const members = cluster.slicesOf(name)
    cluster.removeService(name)
    cluster.putService(name, vip, shape(vip, random))
    for (const slice of members)
      cluster.server.apply({ ...slice, ports: cluster.slicePorts(name) })
    cluster.mirror(name)
    return 'delete and create'
  })

/** Moves to other addresses, which only a deletion and a creation can do. */
export const renumberService: Change = (cluster, random) =>
  withOne(cluster, random, ({ metadata: { name } }) => {
    const vip = freeVip(cluster.services, random)
    if (vip === undefined) return ''
    cluster.server.delete('services', name)
    cluster.putService(name, vip, shape(vip, random))
    rewritePorts(cluster, name)
    return `move to ${vip}`
  })

export const reshapeService: Change = (cluster, random) =>
  withOne(cluster, random, ({ metadata: { name } }, vip) => {
    cluster.putService(name, vip, shape(vip, random))
    // The controller of the slices is late now and then.
    if (random.chance(0.8)) rewritePorts(cluster, name)
    return 'reshape'
  })

export const changeAffinity: Change = (cluster, random) =>
  withOne(cluster, random, service => {
    // It may be what is broken.
    if (isBroken(service)) return ''
    cluster.patchService(service, { spec: affinity(random) })
    return 'affinity'
  })

export const annotate: Change = (cluster, random) =>
  withOne(cluster, random, service => {
    const annotations = {
      ...service.metadata.annotations,
      note: String(random.between(0, 9)),
    }
    cluster.server.apply({
      ...service,
      metadata: { ...service.metadata, annotations },
    })
    return 'annotate'
  })

/** Given to another proxy, and back. */
export const lendService: Change = (cluster, random) =>
  withOne(cluster, random, service => {
    const { [labels.proxyName]: lent, ...rest } = service.metadata.labels ?? {}
    const given = lent === undefined ? { ...rest, [labels.proxyName]: 'other' } : rest
    cluster.patchService(service, { labels: given })
    return lent === undefined ? 'service-proxy-name' : 'no service-proxy-name'
  })

export const beheadService: Change = (cluster, random) =>
  withOne(cluster, random, ({ metadata: { name }, spec }, vip) => {
    const kind = random.pick(['headless', 'ExternalName'])
    const over: ServiceOver =
      kind === 'headless'
        ? { spec: { ports: spec.ports, clusterIP: 'None', clusterIPs: ['None'] } }
        : {
            spec: {
              type: 'ExternalName',
              externalName: 'example.com',
              ports: spec.ports,
              clusterIP: '',
              clusterIPs: [],
            },
          }
    cluster.putService(name, vip, over)
    return kind
  })

export const breakService: Change = (cluster, random) =>
  withOne(cluster, random, ({ metadata: { name } }, vip) => {
    const spec = random.pick([
      { ports: [{ protocol: 'TCP', port: 70_000 }] },
      { clusterIP: '10.96.0.300', clusterIPs: ['10.96.0.300'] },
      { sessionAffinity: 'Sometimes' },
      { ports: null },
    ])
    cluster.putService(name, vip, { spec, broken: true })
    return `break (${Object.keys(spec).join()})`
  })

/** All that a Service can look like on the addresses of one number. */
const shape = (vip: number, random: Random): ServiceOver => {
  const dual = random.chance(0.15)
  const clusterIPs = [clusterIP(vip), ...(dual ? [clusterIPv6(vip)] : [])]
  const reach = reaches(vip, random)
  return {
    spec: {
      clusterIPs,
      ipFamilies: dual ? ['IPv4', 'IPv6'] : ['IPv4'],
      ports: random.pick(portSets),
      internalTrafficPolicy: random.chance(0.25) ? 'Local' : 'Cluster',
      ...affinity(random),
      ...reach.spec,
    },
    ...(reach.status && { status: reach.status }),
  }
}

const portSets = [
  [{ protocol: 'TCP', port: servicePorts.main, targetPort: 8080 }],
  [{ protocol: 'TCP', port: servicePorts.main, targetPort: 8080 }],
  [
    { name: 'http', protocol: 'TCP', port: servicePorts.main, targetPort: 'http' },
    { name: 'admin', protocol: 'TCP', port: servicePorts.admin, targetPort: 'admin' },
  ],
  [{ name: 'dns', protocol: 'UDP', port: servicePorts.dns, targetPort: 53 }],
  [
    { name: 'dns', protocol: 'UDP', port: servicePorts.dns, targetPort: 53 },
    { name: 'dns-tcp', protocol: 'TCP', port: servicePorts.dns, targetPort: 53 },
  ],
] as const

const affinity = (random: Random): Readonly<Record<string, unknown>> =>
  random.chance(0.3)
    ? {
        sessionAffinity: 'ClientIP',
        sessionAffinityConfig: {
          clientIP: { timeoutSeconds: random.between(600, 9000) },
        },
      }
    : { sessionAffinity: 'None', sessionAffinityConfig: undefined }

/** From where a Service can be reached besides its ClusterIP. */
const reaches = (vip: number, random: Random): ServiceOver => {
  const externalTrafficPolicy = random.pick(['Cluster', 'Local'])
  const way = random.between(0, 5)
  if (way === 0)
    return { spec: { externalIPs: [externalIP(vip)], externalTrafficPolicy } }
  if (way > 1) return {}
  const ipMode = random.pick(['VIP', 'Proxy'])
  return {
    spec: {
      type: 'LoadBalancer',
      externalTrafficPolicy,
      ...(random.chance(0.4) && { loadBalancerSourceRanges: ['10.0.0.0/8'] }),
    },
    status: { loadBalancer: { ingress: [{ ip: balancerIP(vip), ipMode }] } },
  }
}

const rewritePorts = (cluster: Cluster, name: string): void => {
  for (const slice of cluster.slicesOf(name))
    cluster.server.apply({ ...slice, ports: cluster.slicePorts(name) })
  cluster.mirror(name)
}

const freeVip = (all: readonly RawService[], random: Random): number | undefined => {
  const taken = new Set(all.map(vipOf))
  const free = Array.from({ length: vipCount }, (_, vip) => vip).filter(
    vip => !taken.has(vip),
  )
  return free.length === 0 ? undefined : random.pick(free)
}

const vipOf = ({ metadata }: RawService): number =>
  Number(metadata.annotations?.[vipMark])

/** `act` says what it did; '' for nothing. */
const withOne = (
  cluster: Cluster,
  random: Random,
  act: (service: RawService, vip: number) => string,
): Done | undefined => {
  const all = changeable(cluster)
  if (all.length === 0) return undefined
  const service = random.pick(all)
  const broken = isBroken(service) ? ' of a broken one' : ''
  const what = act(service, vipOf(service))
  return what === '' ? undefined : { what: what + broken, service: service.metadata.name }
}
