import type { TrafficPolicy } from '../../../src/model/service.ts'
import type { IpFamily } from '../../../src/util/ip.ts'
import type { BackendName } from '../../support/net/addresses.ts'

/** Whom loadBalancerSourceRanges let in; the node is known by its first address. */
export type Allowed = 'pods' | 'outside' | 'node' | 'nobody'

/** One Service of the matrix, with every kind of VIP in both families. */
export interface TestService {
  readonly name: string
  readonly backends: readonly BackendName[]
  readonly internal: TrafficPolicy
  readonly external: TrafficPolicy
  /** Undefined: no source ranges. */
  readonly allowed: Allowed | undefined
  /** The load balancer sends to node ports, not to its address (KEP-1860). */
  readonly byProxy: boolean
  readonly sticky: boolean
  /** Which one it is, from 1 on: the end of its addresses. */
  readonly index: number
}

/** On the node; the third backend is elsewhere. */
const here: BackendName = 'backend-2'
const elsewhere: BackendName = 'backend-3'
const everybody: readonly BackendName[] = ['backend-1', here, elsewhere]

type Row = Partial<Omit<TestService, 'name' | 'index'>>

/** In all but what is said: policies Cluster, an endpoint here and one elsewhere. */
const rows: Readonly<Record<string, Row>> = {
  plain: { backends: everybody },
  'internal-local': { internal: 'Local' },
  'internal-local-none': { internal: 'Local', backends: [elsewhere] },
  'external-local': { external: 'Local' },
  'external-local-none': { external: 'Local', backends: [elsewhere] },
  'both-local': { internal: 'Local', external: 'Local' },
  'no-endpoints': { backends: [] },
  'no-endpoints-local': { internal: 'Local', external: 'Local', backends: [] },
  'for-pods': { allowed: 'pods' },
  'for-outside': { allowed: 'outside' },
  'for-node': { allowed: 'node' },
  'for-nobody': { allowed: 'nobody' },
  'by-proxy': { byProxy: true },
  sticky: { sticky: true, backends: everybody },
  /** Its only endpoint dials it. */
  loner: { backends: ['backend-1'] },
  /** Of a pod that has the node's network. */
  'on-node': { backends: ['node'] },
}

const plain: Required<Row> = {
  backends: [here, elsewhere],
  internal: 'Cluster',
  external: 'Cluster',
  allowed: undefined,
  byProxy: false,
  sticky: false,
}

export const services: readonly TestService[] = Object.entries(rows).map(
  ([name, row], i) => Object.assign({ name, index: i + 1 }, plain, row),
)

export const serviceNamed = (name: string): TestService => {
  const found = services.find(service => service.name === name)
  if (found === undefined) throw new Error(`no Service ${name} in the matrix`)
  return found
}

/** Where all that matters is that there are some, of several kinds. */
export const someServices = ['plain', 'both-local', 'for-pods', 'sticky', 'on-node'].map(
  serviceNamed,
)

/** Both protocols have the same number. */
export const servicePort = 80
/** Of no Service. */
export const unknownPort = 81

const hex = ({ index }: TestService): string => index.toString(16)

export const clusterIpOf = (service: TestService, family: IpFamily): string =>
  family === 'IPv4' ? `10.96.0.${service.index}` : `fd10:96::${hex(service)}`

export const externalIpOf = (service: TestService, family: IpFamily): string =>
  family === 'IPv4' ? `192.0.2.${service.index}` : `2001:db8:e::${hex(service)}`

export const loadBalancerIpOf = (service: TestService, family: IpFamily): string =>
  family === 'IPv4' ? `198.18.0.${service.index}` : `2001:db8:1b::${hex(service)}`

export const nodePortOf = ({ index }: TestService): number => 30_000 + index
export const healthCheckPortOf = ({ index }: TestService): number => 31_000 + index
