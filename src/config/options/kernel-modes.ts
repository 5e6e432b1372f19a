import { group, node } from '../row.ts'
import { cidrList } from '../types/addresses.ts'
import { anyText, badValue, commaList, onOff, textual, oneOf } from '../types/basic.ts'
import { duration, goSpan, int32 } from '../types/quantities.ts'

const kernel = { modes: ['nftables', 'iptables', 'ipvs'] } as const
const iptables = { modes: ['iptables'] } as const
const ipvs = { modes: ['ipvs'] } as const

/** As the kernel has it (dev_valid_name), without what nft would read as more than a name. */
const deviceName = (text: string): string => {
  if (/^[^\s/:"\\]{1,15}$/.test(text) && text !== '.' && text !== '..') return text
  throw badValue(text, 'is no name of a network device', 'give one as in eth0')
}

/** What kube-proxy has for its modes in the kernel; what has to do with conntrack is apart. */
export const kernelModes = group('kube-proxy compatibility', node, {
  'iptables-masquerade-bit': {
    modes: ['iptables', 'ipvs'],
    type: int32(0, 31),
    field: 'iptables.masqueradeBit',
    help: 'Bit of the packet mark, 0 to 31, that marks packets for masquerading (source NAT to the address of this node). Choose another if a network plugin uses it. In nftables mode, nftables.masqueradeBit of the --config file sets it.',
  },
  'masquerade-all': {
    ...kernel,
    type: onOff,
    field: 'iptables.masqueradeAll',
    help: 'Masquerade all connections to ClusterIPs: endpoints see the address of the node instead of the client. For networks in which replies of endpoints would bypass the node.',
  },
  'iptables-localhost-nodeports': {
    ...iptables,
    type: onOff,
    field: 'iptables.localhostNodePorts',
    help: 'Also serve node ports on 127.0.0.1, using route_localnet, which allows packets for 127.0.0.0/8 to leave the loopback device. IPv4 only.',
  },
  'nftables-localhost-nodeports': {
    modes: ['nftables'],
    type: onOff,
    defaultText: 'false',
    help: 'Also serve node ports on 127.0.0.1 and ::1, TCP and UDP. Starts the relay of userspace mode, because in nftables mode the kernel cannot send this traffic to endpoints.',
  },
  'nftables-flowtable-devices': {
    modes: ['nftables'],
    type: commaList(textual('DEVICE', deviceName)),
    defaultText: '',
    help: 'Forward packets of established TCP and UDP connections of Services between these devices through a flowtable, which bypasses routing, conntrack and all rules: less work per packet, but firewalls and counters no longer see them. Needs kernel support (nf_flow_table).',
  },
  'ipvs-sync-period': {
    ...ipvs,
    type: duration('above zero'),
    field: 'ipvs.syncPeriod',
    help: '--sync-period of ipvs mode, if that flag is not given.',
  },
  'ipvs-min-sync-period': {
    ...ipvs,
    type: duration('or zero'),
    field: 'ipvs.minSyncPeriod',
    help: '--min-sync-period of ipvs mode, if that flag is not given and this is above zero.',
  },
  'ipvs-scheduler': {
    ...ipvs,
    type: anyText('NAME'),
    defaultText: 'rr',
    field: 'ipvs.scheduler',
    help: 'IPVS scheduler: rr (round robin), wrr, lc (least connections), wlc, dh, sh (source hash), sed, nq, lblc or mh. Each is a kernel module.',
  },
  'ipvs-exclude-cidrs': {
    ...ipvs,
    type: cidrList,
    field: 'ipvs.excludeCIDRs',
    help: 'CIDRs whose virtual servers belong to other programs and are left alone.',
  },
  'ipvs-strict-arp': {
    ...ipvs,
    type: onOff,
    field: 'ipvs.strictARP',
    help: 'Answer ARP only on the device that has the address (arp_ignore 1, arp_announce 2). MetalLB needs this, because in ipvs mode every VIP is an address of this node.',
  },
  'ipvs-tcp-timeout': {
    ...ipvs,
    type: goSpan,
    field: 'ipvs.tcpTimeout',
    help: "Idle timeout of TCP connections in IPVS; 0 keeps the kernel's value (15 minutes).",
  },
  'ipvs-tcpfin-timeout': {
    ...ipvs,
    type: goSpan,
    field: 'ipvs.tcpFinTimeout',
    help: "Idle timeout of TCP connections in IPVS after one side has sent a FIN; 0 keeps the kernel's value (2 minutes).",
  },
  'ipvs-udp-timeout': {
    ...ipvs,
    type: goSpan,
    field: 'ipvs.udpTimeout',
    help: "Idle timeout of UDP clients in IPVS; 0 keeps the kernel's value (5 minutes).",
  },
  'pod-bridge-interface': {
    ...kernel,
    type: anyText('NAME'),
    field: 'detectLocal.bridgeInterface',
    help: 'Bridge that the pods of this node are attached to, for --detect-local-mode BridgeInterface.',
  },
  'pod-interface-name-prefix': {
    ...kernel,
    type: anyText('PREFIX'),
    field: 'detectLocal.interfaceNamePrefix',
    help: 'Prefix of the interface names of pods on this node, such as "veth" or "cali", for --detect-local-mode InterfaceNamePrefix.',
  },
})

/** The kernel's table of connections, by which rules of the kernel's lead clients, in each mode. */
export const conntrack = group('kube-proxy compatibility', node, {
  'conntrack-max-per-core': {
    type: int32(0),
    field: 'conntrack.maxPerCore',
    help: 'Conntrack table size per CPU core (nf_conntrack_max, 1048576 at most in total); 0 keeps the current limit.',
  },
  'conntrack-min': {
    type: int32(0),
    field: 'conntrack.min',
    help: 'Lower bound for the limit set by --conntrack-max-per-core, however few cores there are.',
  },
  'conntrack-max': {
    type: int32(0),
    default: '0',
    help: 'Conntrack table size regardless of the number of cores, as before kube-proxy 1.17; 0 leaves it to the other two flags.',
  },
  'conntrack-tcp-timeout-established': {
    type: goSpan,
    field: 'conntrack.tcpEstablishedTimeout',
    help: 'Conntrack timeout of idle TCP connections; 0 keeps the current value.',
  },
  'conntrack-tcp-timeout-close-wait': {
    type: goSpan,
    field: 'conntrack.tcpCloseWaitTimeout',
    help: 'Conntrack timeout of TCP connections in state CLOSE_WAIT, after one side has sent its FIN; 0 keeps the current value.',
  },
  'conntrack-tcp-be-liberal': {
    type: onOff,
    field: 'conntrack.tcpBeLiberal',
    help: 'Do not treat packets outside the TCP window as invalid (nf_conntrack_tcp_be_liberal). iptables mode then has no rule that drops invalid packets; nftables mode never has one.',
  },
  'conntrack-udp-timeout': {
    type: goSpan,
    field: 'conntrack.udpTimeout',
    help: 'Conntrack timeout of UDP flows without a reply; 0 keeps the current value.',
  },
  'conntrack-udp-timeout-stream': {
    type: goSpan,
    field: 'conntrack.udpStreamTimeout',
    help: 'Conntrack timeout of UDP flows with a reply; 0 keeps the current value.',
  },
})

/** How processes of this node are led to endpoints before any proxy has to do with them. */
export const connectTime = group('Connect time', node, {
  'connect-time': {
    type: oneOf(['off', 'auto', 'on', 'host']),
    default: 'off',
    help: 'Socket load balancing: BPF programs attached to the cgroup send processes of this node and its pods straight to an endpoint when they connect. No proxy or packet rule is involved, and endpoints see the address of the process. Works alongside every --proxy-mode, which serves all other clients. "auto": where it works. "on": like "auto", but reported as a problem where it does not work. "host": only processes of the node; pods use the proxy mode (for meshes that redirect pods). Needs Linux 5.8 or later with cgroup v2, CAP_BPF and CAP_NET_ADMIN.',
  },
  'connect-time-cgroup': {
    type: anyText('DIR'),
    defaultText: 'the root of cgroup v2',
    help: "Cgroup whose processes are included, with all cgroups below it. In a container, mount the host's /sys/fs/cgroup and give its path here.",
  },
  'connect-time-exempt': {
    type: commaList(anyText('CGROUP')),
    help: 'Cgroups to exclude, with all cgroups below them, such as those of clusters inside this node (kind, k3d), which have their own VIPs. Paths are relative to --connect-time-cgroup; "*" matches any text within a name: system.slice/docker-*.scope. Their traffic uses the proxy mode.',
  },
  'connect-time-bpffs': {
    commands: ['run', 'check', 'cleanup'],
    type: anyText('DIR'),
    default: '/sys/fs/bpf',
    help: 'Mount point of a bpffs, which keeps programs and tables while Usher restarts. `usher cleanup` removes them.',
  },
})
