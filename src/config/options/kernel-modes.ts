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
export const kernelModes = group('As kube-proxy has them', node, {
  'iptables-masquerade-bit': {
    modes: ['iptables', 'ipvs'],
    type: int32(0, 31),
    field: 'iptables.masqueradeBit',
    help: 'Which bit of the packet mark says that a packet is to be masqueraded (leave with the address of this node), 0 to 31. Another one where a network plugin uses that bit. In nftables mode nftables.masqueradeBit of the --config file says it.',
  },
  'masquerade-all': {
    ...kernel,
    type: onOff,
    field: 'iptables.masqueradeAll',
    help: 'Masquerade all connections to ClusterIPs: backends see the address of the node in place of the client. For networks whose backends answer past the node.',
  },
  'iptables-localhost-nodeports': {
    ...iptables,
    type: onOff,
    field: 'iptables.localhostNodePorts',
    help: 'Serve node ports on 127.0.0.1 too, by route_localnet, which lets packets for 127.0.0.0/8 leave the loopback device. For IPv4 only.',
  },
  'nftables-localhost-nodeports': {
    modes: ['nftables'],
    type: onOff,
    defaultText: 'false',
    help: 'Serve node ports on 127.0.0.1 and ::1 too, TCP and UDP, by the relay of userspace mode, which is started for it: in nftables mode the kernel has no way to lead them to endpoints.',
  },
  'nftables-flowtable-devices': {
    modes: ['nftables'],
    type: commaList(textual('DEVICE', deviceName)),
    defaultText: '',
    help: 'Forward packets of established TCP and UDP connections of Services between these devices by a flowtable, past routing, conntrack and all rules: less work for each packet, and firewalls and counters no longer see them. For kernels that have it (nf_flow_table).',
  },
  'ipvs-sync-period': {
    ...ipvs,
    type: duration('above zero'),
    field: 'ipvs.syncPeriod',
    help: '--sync-period of ipvs mode when that is not given.',
  },
  'ipvs-min-sync-period': {
    ...ipvs,
    type: duration('or zero'),
    field: 'ipvs.minSyncPeriod',
    help: '--min-sync-period of ipvs mode when that is not given and this is above zero.',
  },
  'ipvs-scheduler': {
    ...ipvs,
    type: anyText('NAME'),
    defaultText: 'rr',
    field: 'ipvs.scheduler',
    help: 'How connections are spread over endpoints: rr (by turns), wrr, lc (fewest connections), wlc, dh, sh (by client), sed, nq, lblc or mh; the kernel has a module for each.',
  },
  'ipvs-exclude-cidrs': {
    ...ipvs,
    type: cidrList,
    field: 'ipvs.excludeCIDRs',
    help: 'CIDRs with virtual servers of other programs, which are left alone.',
  },
  'ipvs-strict-arp': {
    ...ipvs,
    type: onOff,
    field: 'ipvs.strictARP',
    help: 'Answer ARP only on the device that has the address (arp_ignore 1, arp_announce 2), as MetalLB needs it: in ipvs mode all VIPs are addresses of this node.',
  },
  'ipvs-tcp-timeout': {
    ...ipvs,
    type: goSpan,
    field: 'ipvs.tcpTimeout',
    help: 'Forget a TCP connection on which nothing moved for so long; 0 leaves what the kernel has (15 minutes).',
  },
  'ipvs-tcpfin-timeout': {
    ...ipvs,
    type: goSpan,
    field: 'ipvs.tcpFinTimeout',
    help: 'The same after a FIN of one side; 0 leaves what the kernel has (2 minutes).',
  },
  'ipvs-udp-timeout': {
    ...ipvs,
    type: goSpan,
    field: 'ipvs.udpTimeout',
    help: 'Forget a UDP client when nothing moved for so long; 0 leaves what the kernel has (5 minutes).',
  },
  'pod-bridge-interface': {
    ...kernel,
    type: anyText('NAME'),
    field: 'detectLocal.bridgeInterface',
    help: 'The bridge that the pods of this node are on, for --detect-local-mode BridgeInterface.',
  },
  'pod-interface-name-prefix': {
    ...kernel,
    type: anyText('PREFIX'),
    field: 'detectLocal.interfaceNamePrefix',
    help: 'What the interfaces of the pods of this node begin with, such as "veth" or "cali", for --detect-local-mode InterfaceNamePrefix.',
  },
})

/** The kernel's table of connections, by which rules of the kernel's lead clients, in each mode. */
export const conntrack = group('As kube-proxy has them', node, {
  'conntrack-max-per-core': {
    type: int32(0),
    field: 'conntrack.maxPerCore',
    help: 'How many connections the kernel tracks at most, for each core (nf_conntrack_max, 1048576 at most altogether); 0 leaves the limit as it is.',
  },
  'conntrack-min': {
    type: int32(0),
    field: 'conntrack.min',
    help: 'Lower bound of the limit that --conntrack-max-per-core sets, however few cores there are.',
  },
  'conntrack-max': {
    type: int32(0),
    default: '0',
    help: 'The same limit whatever the number of cores, as before kube-proxy 1.17; 0: the other two flags decide.',
  },
  'conntrack-tcp-timeout-established': {
    type: goSpan,
    field: 'conntrack.tcpEstablishedTimeout',
    help: 'The kernel forgets a TCP connection on which nothing moved for so long; 0 leaves it as it is.',
  },
  'conntrack-tcp-timeout-close-wait': {
    type: goSpan,
    field: 'conntrack.tcpCloseWaitTimeout',
    help: 'The same in state CLOSE_WAIT, after one side has sent its FIN; 0 leaves it as it is.',
  },
  'conntrack-tcp-be-liberal': {
    type: onOff,
    field: 'conntrack.tcpBeLiberal',
    help: 'Do not take packets outside their TCP window for invalid (nf_conntrack_tcp_be_liberal): iptables mode then has no rule that drops invalid packets; nftables mode never has.',
  },
  'conntrack-udp-timeout': {
    type: goSpan,
    field: 'conntrack.udpTimeout',
    help: 'The kernel forgets a UDP client without a reply after so long; 0 leaves it as it is.',
  },
  'conntrack-udp-timeout-stream': {
    type: goSpan,
    field: 'conntrack.udpStreamTimeout',
    help: 'The same for one with a reply; 0 leaves it as it is.',
  },
})

/** How processes of this node are led to endpoints before any proxy has to do with them. */
export const connectTime = group('Connect time', node, {
  'connect-time': {
    type: oneOf(['off', 'auto', 'on', 'host']),
    default: 'off',
    help: 'Lead processes of this node and of its pods to endpoints when they connect (socket load balancing), by BPF programs at the cgroup: no proxy and no packet rule is in between, and endpoints see the address of the process. In addition to every --proxy-mode, which carries all other clients. "auto": where it works; "on": the same, and it is a problem where it does not; "host": processes of the node only, while pods go the way of the mode (for meshes that redirect pods). Linux 5.8 or later with cgroup v2, CAP_BPF and CAP_NET_ADMIN.',
  },
  'connect-time-cgroup': {
    type: anyText('DIR'),
    defaultText: 'the root of cgroup v2',
    help: "The cgroup whose processes are led, with all groups below it. In a container that is the host's /sys/fs/cgroup, mounted into it.",
  },
  'connect-time-exempt': {
    type: commaList(anyText('CGROUP')),
    help: 'Cgroups whose processes are not led, with all groups below: those of clusters inside this node (kind, k3d), which have VIPs of their own. Paths below --connect-time-cgroup, in which "*" stands for any text within a name: system.slice/docker-*.scope. The mode carries what they send out.',
  },
  'connect-time-bpffs': {
    commands: ['run', 'check', 'cleanup'],
    type: anyText('DIR'),
    default: '/sys/fs/bpf',
    help: 'Where a bpffs is mounted: programs and tables are kept there while Usher is restarted. `usher cleanup` removes them.',
  },
})
