import type { ServicePort } from '../../model/snapshot.ts'
import type { Chain } from '../xtables/wanted.ts'
import type { Context } from './context.ts'
import { endpointChains } from './endpoint-chains.ts'
import { externalChain, firewallChain } from './external-chains.ts'
import { type PortalRules, portalRules } from './portal-rules.ts'
import { serviceOf } from './service.ts'

/** All rules of one ServicePort. */
export interface ServiceRules extends PortalRules {
  /** Its own chains, in nat; each before those it leads to. */
  readonly chains: readonly Chain[]
}

/** As kube-proxy 1.36 has them. A pure function. */
export const serviceRules = (
  servicePort: ServicePort,
  context: Context,
): ServiceRules => {
  const service = serviceOf(servicePort)
  return {
    ...portalRules(service, context),
    chains: [
      ...firewallChain(service),
      ...externalChain(service, context),
      ...endpointChains(service, context),
    ],
  }
}
