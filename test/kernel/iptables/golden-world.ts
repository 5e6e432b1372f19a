import {
  type FullRules,
  fullRules,
  type Features,
} from '../../../src/kernel/iptables/full-rules.ts'
import { plainSettings, type KernelSettings } from '../../../src/kernel/proxier.ts'
import { Registry } from '../../../src/model/registry.ts'
import type { Change, EndpointSpec } from '../../../src/model/service.ts'
import type { Snapshot } from '../../../src/model/snapshot.ts'
import type { IpFamily } from '../../../src/util/ip.ts'
import { endpoint, node, put } from '../../support/objects.ts'
import { fullText } from './full-text.ts'

/** The node n1, in the zone `here`. Its pods are in 10.180.0.0/24, all in 10.180.0.0/16. */
export const thisNode = put(
  node('n1', { zone: 'here', addresses: ['192.168.0.2', '2001:db8::2'] }),
)

export const local = (address: string, over: Partial<EndpointSpec> = {}) =>
  endpoint(address, { nodeName: 'n1', zone: 'here', ...over })

export const remote = (address: string, over: Partial<EndpointSpec> = {}) =>
  endpoint(address, { nodeName: 'n2', zone: 'there', ...over })

const snapshotOf = (changes: readonly Change[], family: IpFamily): Snapshot => {
  const registry = new Registry({ nodeName: 'n1' })
  registry.apply([thisNode, ...changes])
  return registry.snapshot(family)
}

export const settingsOf = (
  family: IpFamily,
  over: Partial<KernelSettings> = {},
): KernelSettings => ({
  ...plainSettings,
  localhostNodePorts: true,
  localDetector: {
    by: 'source',
    cidrs: [family === 'IPv4' ? '10.180.0.0/16' : 'fd00:10:180::/48'],
  },
  nodeAddresses: [family === 'IPv4' ? '192.168.0.2' : '2001:db8::2'],
  ...over,
})

/** What a kernel of today has, but for nfacct, which few have. */
const plainFeatures: Features = {
  randomFully: true,
  conntrackLiberal: false,
  nfacct: false,
  sctp: true,
}

export interface Situation {
  readonly changes?: readonly Change[]
  readonly family?: IpFamily
  readonly settings?: Partial<KernelSettings>
  readonly features?: Partial<Features>
}

export const rulesOf = ({
  changes = [],
  family = 'IPv4',
  settings,
  features,
}: Situation): FullRules =>
  fullRules(snapshotOf(changes, family), settingsOf(family, settings), {
    ...plainFeatures,
    ...features,
  })

export const textOf = (situation: Situation): string => fullText(rulesOf(situation))
