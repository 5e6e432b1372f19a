/** Checksums of what nf_conntrack needs, which no module names as its need. */
const checksums = 'crc32c_generic'

/** What a kernel with iptables (legacy) has that rules of it may need. */
export const iptablesModules = `${checksums}
  iptable_nat iptable_filter iptable_mangle ipt_REJECT
  ip6table_nat ip6table_filter ip6table_mangle ip6t_REJECT
  xt_nat xt_addrtype xt_comment xt_conntrack xt_mark xt_tcpudp
  nf_conntrack_netlink`.split(/\s+/)

/** What rules of iptables mode need besides. */
export const iptablesModeModules = ['xt_MASQUERADE', 'xt_statistic', 'xt_recent']

/** The same for nftables. */
export const nftablesModules = `${checksums}
  nf_tables nft_chain_nat nft_nat nft_ct
  nft_reject_ipv4 nft_reject_ipv6 nft_reject_inet
  nft_fib_ipv4 nft_fib_ipv6 nft_fib_inet
  nf_conntrack_netlink`.split(/\s+/)

/** What rules of nftables mode need besides, a flowtable too. */
export const nftablesModeModules = [
  'nft_numgen',
  'nft_masq',
  'nf_flow_table_inet',
  'nft_flow_offload',
]

/** What a node of ipvs mode has besides, schedulers apart. */
export const ipvsModules = `${checksums}
  ip_vs nf_conntrack dummy
  xt_set ip_set_hash_ip ip_set_hash_ipport ip_set_hash_ipportip ip_set_hash_ipportnet
  ip_set_bitmap_port
  xt_conntrack xt_addrtype xt_mark xt_comment xt_tcpudp xt_MASQUERADE xt_nat
  ipt_REJECT ip6t_REJECT nft_compat`.split(/\s+/)
