import type { Snapshot } from '../../model/snapshot.ts'
import type { KernelSettings } from '../proxier.ts'
import { kubeletFirewall } from '../xtables/kube-chains.ts'
import type { Chain, Jump, TableName } from '../xtables/wanted.ts'
import { hasLocalhostNodePorts, largeCluster, makeContext } from './context.ts'
import { localnetRule } from './fixed-chains.ts'
import { wantedJumps } from './jumps.ts'
import { named } from '../xtables/kube-chains.ts'
import { type ServiceRules, serviceRules } from './service-rules.ts'
import {
  constantChains,
  healthCheckChain,
  portalChain,
  portalKindNames,
  portalKinds,
} from './shared-chains.ts'
import type { Features } from './features.ts'

/** All rules of one family. */
export interface FullRules {
  readonly mangle: readonly Chain[]
  readonly filter: readonly Chain[]
  readonly nat: readonly Chain[]
  /** In the order in which they are put in front of a chain's rules. */
  readonly jumps: Readonly<Record<TableName, readonly Jump[]>>
}

/**
 * The layout of kube-proxy 1.36. A pure function, and in one piece: a snapshot of 10 000
 * ServicePorts takes it some hundred milliseconds.
 */
export const fullRules = (
  snapshot: Snapshot,
  settings: KernelSettings,
  features: Features,
): FullRules => {
  const { family } = snapshot
  const servicePorts = [...snapshot.servicePorts.values()]
  const endpoints = servicePorts.reduce((sum, each) => sum + each.endpoints.length, 0)
  const context = makeContext(family, settings, features, endpoints > largeCluster)
  const services = servicePorts.map(each => serviceRules(each, context))
  return assemble(snapshot, settings, features, services)
}

/** Puts the rules of all ServicePorts and the constant ones together. */
export const assemble = (
  snapshot: Snapshot,
  settings: KernelSettings,
  features: Features,
  services: readonly ServiceRules[],
): FullRules => {
  const { family } = snapshot
  const localnet = hasLocalhostNodePorts(family, settings)
  const shared = (table: TableName): readonly Chain[] => [
    ...constantChains(table, settings, features),
    ...portalKindNames
      .filter(kind => portalKinds[kind].table === table)
      .map(kind => portalChain(kind, services, settings, family)),
  ]
  const kubelets: readonly Chain[] = localnet
    ? [{ name: kubeletFirewall, lines: [localnetRule] }]
    : []
  return {
    mangle: [{ name: named.canary, lines: [] }],
    filter: [...shared('filter'), healthCheckChain(snapshot), ...kubelets],
    nat: [...shared('nat'), ...services.flatMap(({ chains }) => chains)],
    jumps: wantedJumps(localnet),
  }
}
