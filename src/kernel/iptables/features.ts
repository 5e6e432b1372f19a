/** What the tool and the kernel of a node have, or are set to, beyond what is needed. */
export interface Features {
  /** `MASQUERADE --random-fully` (iptables 1.6.2, Linux 3.13). */
  readonly randomFully: boolean
  /** nf_conntrack_tcp_be_liberal is on: packets out of the window are not INVALID. */
  readonly conntrackLiberal: boolean
  /** `-m sctp` (the module xt_sctp): without it a rule for it would cost all others. */
  readonly sctp: boolean
  /** `-m nfacct`, with kube-proxy's counters in the kernel. */
  readonly nfacct: boolean
}

/** Of nfacct; kube-proxy 1.31 and later show them as metrics. */
export const counters = {
  invalidDropped: 'ct_state_invalid_dropped_pkts',
  localhostNodePorts: 'localhost_nps_accepted_pkts',
} as const
