import type { HostName } from '../../support/net/addresses.ts'
import {
  type Cell,
  type Expected,
  type Manner,
  isAllowed,
  isOnNode,
  refused,
  silence,
} from './oracle-terms.ts'
import type { TestService } from './services.ts'

type Userspace = Exclude<Manner, 'iptables' | 'ipvs' | 'nftables'>

/** Of a process of the node that carries each connection: backends see the node alone. */
export const byUserspace = (cell: Cell, manner: Userspace): Expected => {
  const { service, vip, from } = cell
  if (vip === 'unknown port') return refused
  if (vip === 'load-balancer IP' && service.byProxy) return silence
  if (!isAllowed(cell)) return dropped(cell, manner)
  const { backends } = service
  if (backends.length === 0) return refused
  const policy = vip === 'ClusterIP' ? service.internal : externalPolicy(service, from)
  const usable = policy === 'Cluster' ? backends : backends.filter(isOnNode)
  return usable.length === 0
    ? dropped(cell, manner)
    : { result: 'answer', from: usable, as: 'node' }
}

/** Who is on the node already gets the endpoints of the cluster. */
const externalPolicy = ({ external }: TestService, from: HostName) =>
  from === 'outside' ? external : 'Cluster'

/**
 * Without rules an address that is closed to everybody is not listened on, and one that is
 * open to some takes a connection before it can look whose it is.
 */
const dropped = ({ vip, protocol }: Cell, manner: Userspace): Expected => {
  if (manner === 'rules') return silence
  if (vip === 'ClusterIP') return refused
  return protocol === 'TCP' ? { result: 'reset' } : silence
}
