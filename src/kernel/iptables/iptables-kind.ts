import type { Clock } from '../../util/clock.ts'
import type { ProxierKind, ProxierObserver } from '../proxier.ts'
import type { RunTool } from '../run-tool.ts'
import type { BackendChoice } from '../xtables/choose-backend.ts'
import { provenBackend } from '../xtables/proven-backend.ts'
import { IptablesProxier } from './iptables-proxier.ts'
import { kubeletFirewall } from '../xtables/kube-chains.ts'
import { isModeChain } from './names.ts'
import { tryBackend } from './probe.ts'

export interface IptablesKindDeps {
  readonly run: RunTool
  readonly clock: Clock
  readonly observer: ProxierObserver
  /** By default `auto`: as the system has it, or as others of Kubernetes do. */
  readonly backend?: BackendChoice
}

/**
 * Services by iptables and ip6tables (1.6.2 or newer: `iptables-restore -w`), in the
 * layout of kube-proxy 1.25 to 1.36, by either back end.
 *
 * What an earlier process left, this or kube-proxy, holds until the first sync replaces it
 * in one transaction of each table. Node ports on 127.0.0.1 need
 * net.ipv4.conf.all.route_localnet = 1, which is not set here.
 */
export const iptablesKind = (deps: IptablesKindDeps): ProxierKind => {
  const { run, backend = 'auto' } = deps
  const backends = provenBackend(run, backend, (one, family) =>
    tryBackend(run, one, family),
  )
  return {
    name: 'iptables',
    probe: backends.probe,
    proxier: family =>
      new IptablesProxier({ ...deps, family, choose: () => backends.choose(family) }),
    owns: { chain: isOwned, nftablesTable: () => false, ipvs: false },
  }
}

/** KUBE-FIREWALL is the kubelet's where there is one, but never a leftover while this runs. */
const isOwned = (table: string, chain: string): boolean =>
  isModeChain(table, chain) || (table === 'filter' && chain === kubeletFirewall)
