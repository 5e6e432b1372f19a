import type { ProxierKind } from '../proxier.ts'
import { provenBackend } from '../xtables/proven-backend.ts'
import type { IpvsDeps } from './ipvs-deps.ts'
import { IpvsProxier } from './ipvs-proxier.ts'
import { probeIpvs, trySetsAndRules } from './probe.ts'
import { isIpvsChain } from './rules.ts'

/** Services by the kernel's own load balancer (ipvs), one virtual server for each VIP. */
export const ipvsKind = (deps: IpvsDeps): ProxierKind => {
  const { run, backend = 'auto' } = deps
  const backends = provenBackend(run, backend, (one, family) =>
    trySetsAndRules(run, one, family),
  )
  return {
    name: 'ipvs',
    probe: family => probeIpvs(deps, family, () => backends.probe(family)),
    proxier: family => new IpvsProxier(deps, family, () => backends.choose(family)),
    owns: { chain: isIpvsChain, nftablesTable: () => false, ipvs: true },
  }
}
