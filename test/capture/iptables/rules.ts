import type { TableSettings } from '../../../src/capture/iptables/fixed-chains.ts'
import type { VipRule } from '../../../src/capture/iptables/vip-rule.ts'
import type { IpFamily } from '../../../src/util/ip.ts'
import { proxyAddresses } from '../steered-table.ts'

/** A rule that forwards everybody, but for what is said. */
export const ruleOf = (
  given: Partial<VipRule> & { readonly toPort?: number } = {},
): VipRule => {
  const { toPort = 3000, ...over } = given
  const family = over.family ?? 'IPv4'
  const kind = over.kind ?? 'ClusterIP'
  const some = family === 'IPv4' ? '10.96.0.1' : 'fd00:10:96::1'
  const address = kind === 'NodePort' ? undefined : (over.address ?? some)
  const [protocol, port] = [over.protocol ?? 'TCP', over.port ?? 80]
  return {
    key: `${address ?? '*'} ${protocol} ${port}`,
    name: 'default/web:http',
    family,
    to: { address: proxyAddresses[family], port: toPort },
    outside: 'forward',
    fromNode: 'forward',
    allowedClients: undefined,
    ...over,
    kind,
    address,
    protocol,
    port,
  }
}

export const settingsOf = (
  family: IpFamily,
  over: Partial<TableSettings> = {},
): TableSettings => ({
  proxyAddress: proxyAddresses[family],
  nodePortCidrs: undefined,
  podCidrs: [family === 'IPv4' ? '10.244.0.0/16' : 'fd00:10:244::/64'],
  healthCheckPorts: [],
  ...over,
})

/** ClusterIPs one after the other, as from 10.96.0.0. */
export const manyRules = (count: number): readonly VipRule[] =>
  Array.from({ length: count }, (_, i) =>
    ruleOf({
      name: `default/web-${i}:http`,
      address: `10.${96 + (i >> 16)}.${(i >> 8) & 255}.${i & 255}`,
      toPort: 1024 + (i % 60_000),
    }),
  )
