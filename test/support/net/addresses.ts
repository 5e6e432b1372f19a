import type { IpFamily } from '../../../src/util/ip.ts'

/** Hosts of the small cluster: the node, pods on it and elsewhere, and one outside. */
export type HostName = ClientPod | 'outside' | BackendName
export type ClientPod = 'pod-1' | 'pod-2'
/** The node too, for a pod of its network answers at its address. */
export type BackendName = 'backend-1' | 'backend-2' | 'backend-3' | 'node'

export type Addresses = Readonly<Record<IpFamily, string>>

/** Private and documentation ranges only (RFC 1918, 4193, 5737, 3849). */
const both = (v4: string, v6: string): Addresses => ({ IPv4: v4, IPv6: v6 })

/** By which each host dials, and is reached. The first two backends are on the node. */
export const addressOf: Readonly<Record<HostName, Addresses>> = {
  node: both('203.0.113.1', '2001:db8:1::1'),
  outside: both('203.0.113.2', '2001:db8:1::2'),
  'pod-1': both('10.244.1.11', 'fd10:244:1::11'),
  'pod-2': both('10.244.1.12', 'fd10:244:1::12'),
  'backend-1': both('10.244.1.21', 'fd10:244:1::21'),
  'backend-2': both('10.244.1.22', 'fd10:244:1::22'),
  'backend-3': both('10.244.2.23', 'fd10:244:2::23'),
}

/** A second address of the node, as of a second network. */
export const secondAddress = both('198.51.100.1', '2001:db8:2::1')
/** The node's address on the interface that leads to pod-1. */
export const podGateway = both('10.244.1.1', 'fd10:244:1::1')
/** The node's address on the link to the other node. */
export const linkAddress = both('172.20.2.1', 'fd20:2::1')
export const loopback = both('127.0.0.1', '::1')

/** Every address of the node by which backends may see it. */
export const nodeAddresses: ReadonlySet<string> = new Set(
  [addressOf.node, secondAddress, podGateway, linkAddress].flatMap(each => [
    each.IPv4,
    each.IPv6,
  ]),
)

/** Of the pods of the node. */
export const podCidrs = both('10.244.1.0/24', 'fd10:244:1::/64')
/** Of the pods of all nodes. */
export const clusterCidrs = both('10.244.0.0/16', 'fd10:244::/32')
export const serviceCidrs = both('10.96.0.0/16', 'fd10:96::/112')

/** Where backends answer, by TCP and UDP. */
export const backendPort = 8080
