import { parseCidr } from '../../util/cidr.ts'
import { familyOf, isWildcard, splitHostPort } from '../../util/ip.ts'
import type { KubeProxyConfiguration } from './shape.ts'
import { clusterCidrs } from './validate-addresses.ts'

const familyOfBind = (hostPort: string): string | undefined => {
  const host = splitHostPort(hostPort, 0)?.host ?? ''
  return isWildcard(host) ? undefined : familyOf(host)
}

/** Fields whose addresses are of another family than `bindAddress`, when that is one. */
const otherFamily = (configuration: KubeProxyConfiguration): string[] => {
  const { bindAddress } = configuration
  const own = familyOf(bindAddress)
  if (isWildcard(bindAddress) || own === undefined) return []
  const families = (path: string, found: readonly (string | undefined)[]): string[] => {
    const known = found.filter(family => family !== undefined)
    return known.length === 0 || known.includes(own)
      ? []
      : [`bindAddress is ${own} but ${path} has ${known[0]} only`]
  }
  const cidrs = clusterCidrs(configuration.clusterCIDR)
  return [
    ...families(
      'clusterCIDR',
      cidrs.map(cidr => parseCidr(cidr)?.family),
    ),
    ...families('healthzBindAddress', [familyOfBind(configuration.healthzBindAddress)]),
    ...families('metricsBindAddress', [familyOfBind(configuration.metricsBindAddress)]),
  ]
}

/** What is probably not meant, though it can be used. */
export const incompleteWarnings = (configuration: KubeProxyConfiguration): string[] => {
  const { clusterCIDR, detectLocalMode } = configuration
  const found = otherFamily(configuration)
  if (detectLocalMode === 'ClusterCIDR' && clusterCIDR === '')
    found.push('detectLocalMode is ClusterCIDR but clusterCIDR is empty')
  return found.map(
    what => `Kube-proxy configuration may be incomplete or incorrect: ${what}`,
  )
}
