import { canonicalIp, familyOf, joinHostPort, splitHostPort } from '../../util/ip.ts'
import { isGiven, type Tree, valueAt } from './fields.ts'
import { type Fields, type KubeProxyConfiguration, shape } from './shape.ts'

const filled = (fields: Fields, tree: Tree): Tree =>
  Object.fromEntries(
    Object.entries(fields).flatMap(([name, node]): [string, unknown][] => {
      const given = tree[name]
      if (node.kind === 'section')
        return [[name, filled(node.fields, (given ?? {}) as Tree)]]
      if (given !== undefined && !node.isUnset(given)) return [[name, given]]
      return 'optional' in node ? [] : [[name, node.default]]
    }),
  )

/** A bare IP gets the port; anything else stays what it is, for validation to see. */
export const withPort = (address: string, port: number): string => {
  if (splitHostPort(address, 0) !== undefined) return address
  const bare = address.replace(/^\[(.*)\]$/, '$1')
  return canonicalIp(bare) === undefined ? address : joinHostPort(bare, port)
}

/**
 * A configuration with every field. Zero stands for the default, as kubeadm writes it,
 * except where zero is a choice of its own (the conntrack numbers, oomScoreAdj).
 */
export const withDefaults = (given: Tree): KubeProxyConfiguration => {
  const all = filled(shape, given) as KubeProxyConfiguration
  const v6 = familyOf(all.bindAddress) === 'IPv6'
  const address = (
    path: 'healthzBindAddress' | 'metricsBindAddress',
    host: string,
    port: number,
  ): string =>
    isGiven(given, path)
      ? withPort(String(valueAt(given, path)), port)
      : joinHostPort(host, port)
  return {
    ...all,
    healthzBindAddress: address('healthzBindAddress', v6 ? '::' : '0.0.0.0', 10256),
    metricsBindAddress: address('metricsBindAddress', v6 ? '::1' : '127.0.0.1', 10249),
  }
}
