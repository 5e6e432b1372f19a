import { byIptables } from './oracle-iptables.ts'
import { type Cell, type Expected, refused } from './oracle-terms.ts'

/**
 * Of kube-proxy's nftables rules, which mean what its iptables rules do, but for two things: what
 * is no port of a ClusterIP is refused, and node ports on loopback are not served by the kernel.
 */
export const byNftables = (cell: Cell): Expected => {
  const { vip } = cell
  return vip === 'unknown port' || vip === 'node port, loopback'
    ? refused
    : byIptables(cell)
}
