import type { Snapshot } from '../../model/snapshot.ts'
import type { IpFamily } from '../../util/ip.ts'
import type { KernelSettings } from '../proxier.ts'
import type { Chain, TableName } from '../xtables/wanted.ts'
import { forwardChain, masqueradeChains, nodePortJumps } from './fixed-chains.ts'
import { named } from '../xtables/kube-chains.ts'
import type { PortalRules } from './portal-rules.ts'
import { comment, safe } from './service.ts'
import type { Features } from './features.ts'

/** The chains that ServicePorts have lines in, as `PortalRules` calls them. */
export const portalKindNames = [
  'refused',
  'refusedOutside',
  'firewall',
  'portals',
  'nodePorts',
] as const satisfies readonly (keyof PortalRules)[]
export type PortalKind = (typeof portalKindNames)[number]

export const portalKinds: Readonly<
  Record<PortalKind, { readonly table: TableName; readonly chain: string }>
> = {
  refused: { table: 'filter', chain: named.services },
  refusedOutside: { table: 'filter', chain: named.externalServices },
  firewall: { table: 'filter', chain: named.proxyFirewall },
  portals: { table: 'nat', chain: named.services },
  nodePorts: { table: 'nat', chain: named.nodePorts },
}

/** With the lines of all ServicePorts, one after the other. */
export const portalChain = (
  kind: PortalKind,
  services: Iterable<PortalRules>,
  settings: KernelSettings,
  family: IpFamily,
): Chain => {
  const lines: string[] = []
  for (const service of services) lines.push(...service[kind])
  if (kind === 'portals') lines.push(...nodePortJumps(family, settings))
  return { name: portalKinds[kind].chain, lines }
}

/** The chains that have the same rules whatever Services there are. */
export const constantChains = (
  table: TableName,
  settings: KernelSettings,
  features: Features,
): readonly Chain[] => {
  // Empty; that it is gone shows that a table was emptied.
  const canary: Chain = { name: named.canary, lines: [] }
  return table === 'filter'
    ? [canary, forwardChain(settings, features)]
    : [canary, ...masqueradeChains(settings, features)]
}

/**
 * filter KUBE-NODEPORTS: whether or not endpoints are here, the load balancer has to be
 * able to ask.
 */
export const healthCheckChain = ({ healthChecks, servicePorts }: Snapshot): Chain => {
  const lines: string[] = []
  // Most snapshots have none.
  for (const each of healthChecks.size === 0 ? [] : servicePorts.values()) {
    const check = healthChecks.get(`${each.namespace}/${each.serviceName}`)
    if (check === undefined) continue
    const why = comment(`${safe(each.name)} health check node port`)
    lines.push(`${why} -m tcp -p tcp --dport ${check.port} -j ACCEPT`)
  }
  return { name: named.nodePorts, lines }
}
