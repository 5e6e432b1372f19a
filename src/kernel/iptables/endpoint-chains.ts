import type { Endpoint } from '../../model/snapshot.ts'
import { joinHostPort } from '../../util/ip.ts'
import type { Chain } from '../xtables/wanted.ts'
import type { Context } from './context.ts'
import { named } from '../xtables/kube-chains.ts'
import { endpointChainName } from './names.ts'
import { comment, protocolMatch, type Service, vipMatch } from './service.ts'

/**
 * KUBE-SVC-, KUBE-SVL- and KUBE-SEP-: which endpoint a packet is led to.
 *
 * `recent` has a list of addresses for each endpoint, of 100 by default (`ip_list_tot` of
 * xt_recent): the oldest falls out, and that client is balanced anew.
 */
export const endpointChains = (service: Service, context: Context): readonly Chain[] => {
  const { names, servicePort, clusterEndpoints, localEndpoints } = service
  const exits = new Map<Endpoint, Exit>()
  for (const endpoint of servicePort.reachable)
    exits.set(endpoint, exitOf(service, endpoint, context))
  const inside = servicePort.internalTrafficPolicy
  const policy = (
    name: string,
    endpoints: readonly Endpoint[],
    isInside: boolean,
  ): readonly Chain[] => {
    if (endpoints.length === 0) return []
    const head = isInside ? clusterIpMasquerade(service, context) : []
    const to = endpoints.flatMap(endpoint => exits.get(endpoint) ?? [])
    return [{ name, lines: [...head, ...affinity(service, to), ...balance(to)] }]
  }
  return [
    ...policy(names.cluster, clusterEndpoints, inside === 'Cluster'),
    ...policy(names.local, localEndpoints, inside === 'Local'),
    ...Array.from(exits.values(), exit => exitChain(service, exit, context)),
  ]
}

/** Where a policy chain leads to. */
interface Exit {
  readonly chain: string
  readonly address: string
  readonly addressPort: string
  /** With a space at its end; '' in a large cluster. */
  readonly comment: string
}

const exitOf = (service: Service, endpoint: Endpoint, { isLarge }: Context): Exit => {
  const { title, protocol, servicePort } = service
  const addressPort = joinHostPort(endpoint.address, endpoint.port)
  return {
    chain: endpointChainName(servicePort.name, protocol, addressPort),
    address: endpoint.address,
    addressPort,
    comment: isLarge ? '' : `${comment(`${title} -> ${addressPort}`)} `,
  }
}

/** A client that is not a pod may have come by a route that the answer would not take. */
const clusterIpMasquerade = (
  service: Service,
  { masquerade }: Context,
): readonly string[] => {
  if (masquerade === undefined) return []
  const clients = masquerade === '' ? '' : ` ${masquerade}`
  const why = comment(`${service.title} cluster IP`)
  return service.vips.ClusterIP.map(
    vip => `${why} ${vipMatch(service, vip)}${clients} -j ${named.markMasq}`,
  )
}

/** A client that was led to an endpoint within the timeout is led there again. */
const affinity = ({ servicePort }: Service, to: readonly Exit[]): readonly string[] => {
  if (servicePort.affinityMs === 0) return []
  // Whole seconds, of which there is at least one.
  const seconds = Math.max(1, Math.ceil(servicePort.affinityMs / 1000))
  const known = `--rcheck --seconds ${seconds} --reap`
  return to.map(
    exit => `${exit.comment}-m recent --name ${exit.chain} ${known} -j ${exit.chain}`,
  )
}

/** Of those left at each rule, its own has an equal chance. */
const balance = (to: readonly Exit[]): readonly string[] =>
  to.map((exit, index) => {
    const left = to.length - index
    const chance =
      left === 1
        ? ''
        : `-m statistic --mode random --probability ${(1 / left).toFixed(10)} `
    return `${exit.comment}${chance}-j ${exit.chain}`
  })

const exitChain = (service: Service, exit: Exit, { isLarge }: Context): Chain => {
  const why = isLarge ? '' : `-m comment --comment ${service.title} `
  const remember =
    service.servicePort.affinityMs === 0 ? '' : `-m recent --name ${exit.chain} --set `
  return {
    name: exit.chain,
    lines: [
      // What comes back to its sender has to be answered through this node.
      `${why}-s ${exit.address} -j ${named.markMasq}`,
      `${why}${remember}${protocolMatch(service)} -j DNAT --to-destination ${exit.addressPort}`,
    ],
  }
}
