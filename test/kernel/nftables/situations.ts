import { type KernelSettings, plainSettings } from '../../../src/kernel/proxier.ts'
import type { IpFamily } from '../../../src/util/ip.ts'

/** Settings, and what is to come of them in rules; `IP` stands for the family. */
export interface Situation {
  readonly settings: KernelSettings
  readonly ifLocal: string
  readonly ifNotLocal: string
  readonly nodePortCidrs: string
  readonly serviceCidrs: string
  readonly bit: string
}

const nothing: Situation = {
  settings: { ...plainSettings, nodeName: 'here' },
  ifLocal: '',
  ifNotLocal: '',
  nodePortCidrs: '',
  serviceCidrs: '',
  bit: '0x4000',
}

const bySource = (given: readonly string[], least: string): Partial<Situation> => ({
  settings: { ...nothing.settings, localDetector: { by: 'source', cidrs: given } },
  ifLocal: `IP saddr { ${least} }`,
  ifNotLocal: `IP saddr != { ${least} }`,
})

const over = (
  base: Partial<Situation>,
  settings: Partial<KernelSettings>,
  words: Partial<Situation> = {},
): Situation => {
  const whole = { ...nothing, ...base, ...words }
  return { ...whole, settings: { ...whole.settings, ...settings } }
}

const some = {
  IPv4: {
    pods: bySource(['10.244.0.0/16'], '10.244.0.0/16'),
    nested: bySource(
      ['10.244.3.0/24', '10.0.0.0/8', '10.244.0.0/16', '192.0.2.0/24'],
      '10.0.0.0/8, 192.0.2.0/24',
    ),
    nodes: ['203.0.113.0/24', '203.0.113.7/32'],
    fewerNodes: '203.0.113.0/24',
    services: ['10.96.0.0/16', '10.96.0.0/12'],
    fewerServices: '10.96.0.0/12',
    nodePods: ['10.244.0.0/24'],
  },
  IPv6: {
    pods: bySource(['fd00:244::/32'], 'fd00:244::/32'),
    nested: bySource(
      ['fd00:244:3::/48', 'fd00::/16', '2001:db8::/32'],
      'fd00::/16, 2001:db8::/32',
    ),
    nodes: ['2001:db8:113::/64', '2001:db8:113::7/128'],
    fewerNodes: '2001:db8:113::/64',
    services: ['fd00:96::/112', 'fd00:96::/108'],
    fewerServices: 'fd00:96::/108',
    nodePods: ['fd00:244:0:1::/64'],
  },
} as const

/** By what is special in each. */
export const situationsOf = (family: IpFamily): Readonly<Record<string, Situation>> => {
  const { pods, nested, nodes, fewerNodes, services, fewerServices } = some[family]
  const { nodePods } = some[family]
  return {
    'nothing is known': nothing,
    'pods by their addresses': over(pods, {}),
    'nested CIDRs': over(nested, {}),
    'pods by a bridge': over(
      { ifLocal: 'iifname "cbr0"', ifNotLocal: 'iifname != "cbr0"' },
      { localDetector: { by: 'bridge', name: 'cbr0' } },
    ),
    'pods by a prefix of interfaces': over(
      { ifLocal: 'iifname "veth*"', ifNotLocal: 'iifname != "veth*"' },
      { localDetector: { by: 'interface prefix', prefix: 'veth' } },
    ),
    'all clients of ClusterIPs are masqueraded': over(pods, { masqueradeAll: true }),
    'another mark': over(pods, { masqueradeBit: 31 }, { bit: '0x80000000' }),
    'node ports on some addresses': over(
      pods,
      { nodePortCidrs: nodes },
      { nodePortCidrs: fewerNodes },
    ),
    'ServiceCIDRs are known': over(
      pods,
      { serviceCidrs: services },
      { serviceCidrs: fewerServices },
    ),
    'another node': over(pods, { nodeName: 'there' }),
    'a relay beside endpoints': over(pods, {
      relay: { serves: 'beside endpoints', nodePods },
    }),
    'the same, node ports on some addresses': over(
      pods,
      { nodePortCidrs: nodes, relay: { serves: 'beside endpoints', nodePods: [] } },
      { nodePortCidrs: fewerNodes },
    ),
    'a relay alone': over(
      {},
      { nodePortCidrs: nodes, relay: { serves: 'alone', nodePods } },
      { nodePortCidrs: fewerNodes },
    ),
    'the same, of unknown pods': over({}, { relay: { serves: 'alone', nodePods: [] } }),
  }
}
