import type { Change, EndpointSpec, Service } from '../../../src/model/service.ts'
import type { IpFamily } from '../../../src/util/ip.ts'
import {
  notReady,
  portSpec,
  put,
  service,
  slice,
  terminating,
} from '../../support/objects.ts'
import { local, remote } from './golden-world.ts'

/** Addresses of Service number n, and of clients. */
export const addresses = {
  IPv4: {
    clusterIp: (n: number) => `172.30.1.${n}`,
    externalIp: (n: number) => `192.168.99.${n}`,
    balancerIp: (n: number) => `203.0.113.${n}`,
    local: (n: number) => `10.180.0.${n}`,
    remote: (n: number) => `10.180.1.${n}`,
    node: '192.168.0.2',
    pod: '10.180.0.200',
    farPod: '10.180.1.200',
    outside: '198.51.100.7',
    stranger: '192.0.2.7',
  },
  IPv6: {
    clusterIp: (n: number) => `fd00:172:30::${n}`,
    externalIp: (n: number) => `2001:db8:99::${n}`,
    balancerIp: (n: number) => `2001:db8:113::${n}`,
    local: (n: number) => `fd00:10:180:0:1::${n}`,
    remote: (n: number) => `fd00:10:180:1:1::${n}`,
    node: '2001:db8::2',
    pod: 'fd00:10:180:0:1::200',
    farPod: 'fd00:10:180:1:1::200',
    outside: '2001:db8:51:100::7',
    stranger: '2001:db8:2::7',
  },
} as const

export interface ServiceKind {
  readonly title: string
  readonly over?: Partial<Service>
  readonly protocol?: 'TCP' | 'UDP'
  /** Of the endpoint on this node and of the one elsewhere; null: there is none. */
  readonly local?: Partial<EndpointSpec> | null
  readonly remote?: Partial<EndpointSpec> | null
  /** `any` is both endpoints; `*`: masqueraded. */
  readonly packets: string
}

const refusedPackets = `
             cluster IP  external IP  load balancer  node port
  pod        REJECT      REJECT       REJECT         REJECT
  far pod    REJECT      REJECT       REJECT         REJECT
  outside    REJECT      REJECT       REJECT         REJECT
  stranger   REJECT      REJECT       REJECT         REJECT
  node       REJECT      REJECT       REJECT         REJECT`

export const clusterPackets = `
             cluster IP  external IP  load balancer  node port
  pod        any         any*         any*           any*
  far pod    any         any*         any*           any*
  outside    any*        any*         any*           any*
  stranger   any*        any*         any*           any*
  node       any*        any*         any*           any*`

export const localPackets = `
             cluster IP  external IP  load balancer  node port
  pod        any         any          any            any
  far pod    any         any          any            any
  outside    any*        local        local          local
  stranger   any*        local        local          local
  node       any*        any*         any*           any*`

const outsideOnly = ['198.51.100.0/24', '2001:db8:51::/48']
const externalLocal = { externalTrafficPolicy: 'Local' } as const
const internalLocal = { internalTrafficPolicy: 'Local' } as const

/**
 * What becomes of a new connection. Pods are told by the cluster's CIDR, so that pods of
 * other nodes are spared as this node's are; outside is in the source ranges, stranger is
 * not.
 */
export const serviceKinds: readonly ServiceKind[] = [
  { title: 'both policies Cluster', packets: clusterPackets },
  { title: 'externalTrafficPolicy Local', over: externalLocal, packets: localPackets },
  {
    title: 'externalTrafficPolicy Local, endpoints elsewhere only',
    over: externalLocal,
    local: null,
    packets: `
             cluster IP  external IP  load balancer  node port
  pod        remote      remote       remote         remote
  far pod    remote      remote       remote         remote
  outside    remote*     DROP         DROP           DROP
  stranger   remote*     DROP         DROP           DROP
  node       remote*     remote*      remote*        remote*`,
  },
  {
    title: 'internalTrafficPolicy Local',
    over: internalLocal,
    packets: `
             cluster IP  external IP  load balancer  node port
  pod        local       any*         any*           any*
  far pod    local       any*         any*           any*
  outside    local*      any*         any*           any*
  stranger   local*      any*         any*           any*
  node       local*      any*         any*           any*`,
  },
  {
    title: 'internalTrafficPolicy Local, endpoints elsewhere only',
    over: internalLocal,
    local: null,
    packets: `
             cluster IP  external IP  load balancer  node port
  pod        DROP        remote*      remote*        remote*
  far pod    DROP        remote*      remote*        remote*
  outside    DROP        remote*      remote*        remote*
  stranger   DROP        remote*      remote*        remote*
  node       DROP        remote*      remote*        remote*`,
  },
  {
    title: 'both policies Local',
    over: { ...externalLocal, ...internalLocal },
    packets: `
             cluster IP  external IP  load balancer  node port
  pod        local       any          any            any
  far pod    local       any          any            any
  outside    local*      local        local          local
  stranger   local*      local        local          local
  node       local*      any*         any*           any*`,
  },
  {
    title: 'both policies Local, endpoints elsewhere only',
    over: { ...externalLocal, ...internalLocal },
    local: null,
    packets: `
             cluster IP  external IP  load balancer  node port
  pod        DROP        remote       remote         remote
  far pod    DROP        remote       remote         remote
  outside    DROP        DROP         DROP           DROP
  stranger   DROP        DROP         DROP           DROP
  node       DROP        remote*      remote*        remote*`,
  },
  { title: 'no endpoints', local: null, remote: null, packets: refusedPackets },
  {
    title: 'no endpoints, policies Local, source ranges',
    over: { ...externalLocal, ...internalLocal, sourceRanges: outsideOnly },
    local: null,
    remote: null,
    packets: refusedPackets,
  },
  {
    title: 'source ranges',
    over: { sourceRanges: outsideOnly },
    packets: `
             cluster IP  external IP  load balancer  node port
  pod        any         any*         DROP           any*
  far pod    any         any*         DROP           any*
  outside    any*        any*         any*           any*
  stranger   any*        any*         DROP           any*
  node       any*        any*         DROP           any*`,
  },
  {
    title: 'source ranges with the node in one',
    over: { sourceRanges: ['192.168.0.0/24', '2001:db8::2/128'] },
    packets: `
             cluster IP  external IP  load balancer  node port
  pod        any         any*         DROP           any*
  far pod    any         any*         DROP           any*
  outside    any*        any*         DROP           any*
  stranger   any*        any*         DROP           any*
  node       any*        any*         any*           any*`,
  },
  {
    title: 'source ranges with pods in one, and externalTrafficPolicy Local',
    over: { ...externalLocal, sourceRanges: ['10.180.0.0/24', 'fd00:10:180::/64'] },
    packets: `
             cluster IP  external IP  load balancer  node port
  pod        any         any          any            any
  far pod    any         any          DROP           any
  outside    any*        local        DROP           local
  stranger   any*        local        DROP           local
  node       any*        any*         DROP           any*`,
  },
  {
    title: 'source ranges and externalTrafficPolicy Local, endpoints elsewhere only',
    over: { ...externalLocal, sourceRanges: outsideOnly },
    local: null,
    packets: `
             cluster IP  external IP  load balancer  node port
  pod        remote      remote       DROP           remote
  far pod    remote      remote       DROP           remote
  outside    remote*     DROP         DROP           DROP
  stranger   remote*     DROP         DROP           DROP
  node       remote*     remote*      DROP           remote*`,
  },
  {
    title: 'source ranges that are everything',
    over: { sourceRanges: ['0.0.0.0/0', '::/0'] },
    packets: clusterPackets,
  },
  { title: 'UDP', protocol: 'UDP', packets: clusterPackets },
  {
    title: 'UDP without endpoints',
    protocol: 'UDP',
    local: null,
    remote: null,
    packets: refusedPackets,
  },
  {
    title: 'all endpoints serve while they terminate',
    local: terminating,
    remote: terminating,
    packets: clusterPackets,
  },
  {
    title: 'externalTrafficPolicy Local, the endpoint here terminates',
    over: externalLocal,
    local: terminating,
    packets: `
             cluster IP  external IP  load balancer  node port
  pod        remote      remote       remote         remote
  far pod    remote      remote       remote         remote
  outside    remote*     local        local          local
  stranger   remote*     local        local          local
  node       remote*     remote*      remote*        remote*`,
  },
  {
    title: 'the endpoint here is not ready',
    local: notReady,
    packets: clusterPackets.replaceAll('any', 'remote'),
  },
  {
    title: 'hints send this zone elsewhere',
    local: { zoneHints: ['there'] },
    remote: { zoneHints: ['here'] },
    packets: clusterPackets.replaceAll('any', 'remote'),
  },
  {
    title: 'hints send this zone elsewhere, externalTrafficPolicy Local',
    over: externalLocal,
    local: { zoneHints: ['there'] },
    remote: { zoneHints: ['here'] },
    packets: localPackets.replaceAll('any', 'remote'),
  },
  { title: 'affinity', over: { affinityMs: 60_000 }, packets: clusterPackets },
  {
    title: 'affinity and externalTrafficPolicy Local',
    over: { ...externalLocal, affinityMs: 60_000 },
    packets: localPackets,
  },
]

/** Its place among them, from 1. */
export const numberOf = (title: string): number => {
  const at = serviceKinds.findIndex(kind => kind.title === title)
  if (at === -1) throw new Error(title)
  return at + 1
}

export const nodePortOf = (n: number): number => 30_000 + n

/** Service n, with everything that can be dialled. */
export const changesOf = (
  kind: ServiceKind,
  n: number,
  family: IpFamily,
): readonly Change[] => {
  const plan = addresses[family]
  const { protocol = 'TCP', local: here = {}, remote: elsewhere = {} } = kind
  const name = `svc${n}`
  const endpoints = [
    ...(here === null ? [] : [local(plan.local(n), here)]),
    ...(elsewhere === null ? [] : [remote(plan.remote(n), elsewhere)]),
  ]
  return [
    put(
      service(name, {
        clusterIPs: [plan.clusterIp(n)],
        externalIPs: [plan.externalIp(n)],
        loadBalancerIPs: [plan.balancerIp(n)],
        ports: [portSpec({ protocol, nodePort: nodePortOf(n) })],
        ...kind.over,
      }),
    ),
    put(
      slice(endpoints, {
        name,
        serviceName: name,
        family,
        ports: [{ name: 'http', protocol, port: 8080 }],
      }),
    ),
  ]
}
