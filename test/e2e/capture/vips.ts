import type { IpFamily } from '../../../src/util/ip.ts'
import {
  type Addresses,
  addressOf,
  loopback,
  podGateway,
  secondAddress,
} from '../../support/net/addresses.ts'
import {
  clusterIpOf,
  externalIpOf,
  loadBalancerIpOf,
  nodePortOf,
  servicePort,
  type TestService,
  unknownPort,
} from './services.ts'

/** The kinds of addresses that clients dial, node ports by the address of the node. */
export const vipNames = [
  'ClusterIP',
  'external IP',
  'load-balancer IP',
  'node port, first address',
  'node port, second address',
  'node port, pod gateway',
  'node port, loopback',
  'unknown port',
] as const

export type VipName = (typeof vipNames)[number]

interface AddressAndPort {
  readonly address: string
  readonly port: number
}

type Find = (service: TestService, family: IpFamily) => AddressAndPort

const onServicePort =
  (of: (service: TestService, family: IpFamily) => string, port = servicePort): Find =>
  (service, family) => ({ address: of(service, family), port })

const onNodePort =
  (addresses: Addresses): Find =>
  (service, family) => ({ address: addresses[family], port: nodePortOf(service) })

/** What a client dials. */
export const vipOf: Readonly<Record<VipName, Find>> = {
  ClusterIP: onServicePort(clusterIpOf),
  'external IP': onServicePort(externalIpOf),
  'load-balancer IP': onServicePort(loadBalancerIpOf),
  'node port, first address': onNodePort(addressOf.node),
  'node port, second address': onNodePort(secondAddress),
  'node port, pod gateway': onNodePort(podGateway),
  'node port, loopback': onNodePort(loopback),
  'unknown port': onServicePort(clusterIpOf, unknownPort),
}
