import { cidrContains, parseCidr } from '../util/cidr.ts'
import type { IpFamily } from '../util/ip.ts'
import type { Vip } from './snapshot.ts'

/**
 * Who may use the load-balancer IPs of one family: `ranges` are a Service's
 * loadBalancerSourceRanges of both. Undefined: all clients, as where there are none or one
 * is the whole family. Where all are of the other family, and not the whole of it, it is
 * no client; kube-proxy lets all in then.
 *
 * When this node may use them, so may a load-balancer IP itself: a packet that the node
 * sends to an address of its own carries it as its source too (kube-proxy's KUBE-FW).
 */
export const sourceRangesOf = (
  ranges: readonly string[] | undefined,
  family: IpFamily,
  vips: readonly Vip[],
  ownAddresses: readonly string[],
): readonly string[] | undefined => {
  if (ranges === undefined) return undefined
  const all = ranges.flatMap(text => parseCidr(text) ?? [])
  const cidrs = all.filter(cidr => cidr.family === family)
  // `0.0.0.0/0` alone, on a dual-stack Service, was not written to shut IPv6 out.
  const deciding = cidrs.length > 0 ? cidrs : all
  if (deciding.some(({ prefixLength }) => prefixLength === 0)) return undefined
  const texts = cidrs.map(({ text }) => text)
  const ownIsIn = ownAddresses.some(own => cidrs.some(cidr => cidrContains(cidr, own)))
  if (!ownIsIn) return texts
  const length = family === 'IPv4' ? 32 : 128
  const balancers = vips.filter(({ kind }) => kind === 'LoadBalancerIP')
  return [
    ...new Set([...texts, ...balancers.map(({ address }) => `${address}/${length}`)]),
  ]
}
