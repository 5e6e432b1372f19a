/**
 * What of all that could be left behind somebody has now: the Usher that runs, or another
 * proxy. By whole names.
 */
export interface InUse {
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
