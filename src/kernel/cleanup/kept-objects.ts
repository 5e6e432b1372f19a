import { isIpvsChain } from '../ipvs/rules.ts'
import { isModeChain } from '../iptables/names.ts'
import {
  isCaptureChain,
  isOwnChain,
  isUsherChain,
  kubeletDropChain,
  kubeletFirewall,
} from '../xtables/kube-chains.ts'

/**
 * What is kept of all that could be left behind: in use now, by the Usher that runs or by another
 * proxy. By whole names.
 */
export interface KeptObjects {
  readonly chain: (table: string, chain: string) => boolean
  readonly nftablesTable: (name: string) => boolean
  /** Virtual servers, ipsets, and the device kube-ipvs0. */
  readonly ipvs: boolean
  /** Addresses, routes and the device of captures. */
  readonly captures: boolean
  /** Whether that is another proxy, so that rules which only Usher writes go all the same. */
  readonly byOther: boolean
  /** As in `net/ipv4/ip_forward`. */
  readonly sysctl: (name: string) => boolean
}

const kubeProxyTable = (name: string): boolean => name === 'kube-proxy'
const all = (): boolean => true
const none = (): boolean => false

/**
 * What another proxy of the node's has, by the mode it says; undefined: whatever any mode of
 * kube-proxy may have. The rest is Usher's, or a leftover. Settings stay: the other
 * one relies on the same, and would not set them anew.
 */
export const keptForOtherProxy = (mode: string | undefined): Partial<KeptObjects> => {
  const common = { sysctl: all, byOther: true } as const
  switch (mode) {
    case 'iptables':
      return { ...common, chain: isOfIptables, nftablesTable: none }
    case 'ipvs':
      return { ...common, chain: isOfIpvs, nftablesTable: none, ipvs: true }
    case 'nftables':
      return { ...common, chain: none, nftablesTable: kubeProxyTable }
    case 'userspace':
      // Up to 1.25. Usher's captures have its names beside their own.
      return { ...common, chain: isNotUshers, nftablesTable: none, ipvs: true }
    case undefined:
    default:
      return { ...common, chain: isOfAnyMode, nftablesTable: kubeProxyTable, ipvs: true }
  }
}

const isOfIptables = (table: string, chain: string): boolean =>
  isModeChain(table, chain) || isKubelets(table, chain)

const isOfIpvs = (table: string, chain: string): boolean =>
  isIpvsChain(table, chain) || isKubelets(table, chain)

const isShared = (table: string, chain: string): boolean =>
  isOwnChain(table, chain) || isKubelets(table, chain)

/** What kube-proxy makes too, or has made, where it refers to it. */
const isKubelets = (table: string, chain: string): boolean =>
  (table === 'filter' && chain === kubeletFirewall) ||
  (table === 'nat' && chain === kubeletDropChain)

const isOfAnyMode = (table: string, chain: string): boolean =>
  isShared(table, chain) && !isCaptureChain(chain)

const isNotUshers = (table: string, chain: string): boolean =>
  isShared(table, chain) && !isUsherChain(chain)
