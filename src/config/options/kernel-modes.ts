import { cidrList } from '../cidrs.ts'
import { duration, goSpan } from '../duration.ts'
import { int32 } from '../numbers.ts'
import { node, type Row } from '../row.ts'
import { anyText, list, onOff } from '../value.ts'

const common = {
  commands: node,
  group: 'As kube-proxy has them',
  modes: ['iptables', 'ipvs'],
} as const

const iptables = { ...common, modes: ['iptables'] } as const
const ipvs = { ...common, modes: ['ipvs'] } as const

/** What kube-proxy has for its modes in the kernel; what has to do with conntrack is apart. */
export const kernelModes = {
  'iptables-masquerade-bit': {
    ...common,
    type: int32(0, 31),
    default: '14',
    field: 'iptables.masqueradeBit',
    help: 'Which bit of the packet mark says that a packet is to be masqueraded (leave with the address of this node), 0 to 31. Another one where a network plugin uses that bit.',
  },
  'masquerade-all': {
    ...common,
    type: onOff,
    default: 'false',
    field: 'iptables.masqueradeAll',
    help: 'Masquerade all connections to ClusterIPs: backends see the address of the node in place of the client. For networks whose backends answer past the node.',
  },
  'iptables-localhost-nodeports': {
    ...iptables,
    type: onOff,
    default: 'true',
    field: 'iptables.localhostNodePorts',
    help: 'Serve node ports on 127.0.0.1 too, by route_localnet, which lets packets for 127.0.0.0/8 leave the loopback device. For IPv4 only.',
  },
  'ipvs-sync-period': {
    ...ipvs,
    type: duration('above zero'),
    default: '30s',
    field: 'ipvs.syncPeriod',
    help: '--sync-period of ipvs mode when that is not given.',
  },
  'ipvs-min-sync-period': {
    ...ipvs,
    type: duration('or zero'),
    default: '0s',
    field: 'ipvs.minSyncPeriod',
    help: '--min-sync-period of ipvs mode when that is not given.',
  },
  'ipvs-scheduler': {
    ...ipvs,
    type: anyText('NAME'),
    default: '',
    defaultText: 'rr',
    field: 'ipvs.scheduler',
    help: 'How connections are spread over endpoints: rr (by turns), wrr, lc (fewest connections), wlc, dh, sh (by client), sed, nq, lblc or mh; the kernel has a module for each.',
  },
  'ipvs-exclude-cidrs': {
    ...ipvs,
    type: list(cidrList),
    default: '',
    field: 'ipvs.excludeCIDRs',
    help: 'CIDRs with virtual servers of somebody else, which are left alone.',
  },
  'ipvs-strict-arp': {
    ...ipvs,
    type: onOff,
    default: 'false',
    field: 'ipvs.strictARP',
    help: 'Answer ARP only on the device that has the address (arp_ignore 1, arp_announce 2), as MetalLB needs it: in ipvs mode all VIPs are addresses of this node.',
  },
  'ipvs-tcp-timeout': {
    ...ipvs,
    type: goSpan,
    default: '0s',
    field: 'ipvs.tcpTimeout',
    help: 'Forget a TCP connection on which nothing moved for so long; 0 leaves what the kernel has (15 minutes).',
  },
  'ipvs-tcpfin-timeout': {
    ...ipvs,
    type: goSpan,
    default: '0s',
    field: 'ipvs.tcpFinTimeout',
    help: 'The same for one that a side has finished; 0 leaves what the kernel has (2 minutes).',
  },
  'ipvs-udp-timeout': {
    ...ipvs,
    type: goSpan,
    default: '0s',
    field: 'ipvs.udpTimeout',
    help: 'Forget a UDP client when nothing moved for so long; 0 leaves what the kernel has (5 minutes).',
  },
  'cleanup-ipvs': {
    commands: node,
    group: 'As kube-proxy has them',
    type: onOff,
    default: 'true',
    noEffect: "here: --cleanup removes ipvs mode's things always",
    help: 'With --cleanup, of ipvs too; before kube-proxy 1.19.',
  },
  'pod-bridge-interface': {
    ...common,
    type: anyText('NAME'),
    default: '',
    field: 'detectLocal.bridgeInterface',
    help: 'The bridge that the pods of this node are on, for --detect-local-mode BridgeInterface.',
  },
  'pod-interface-name-prefix': {
    ...common,
    type: anyText('PREFIX'),
    default: '',
    field: 'detectLocal.interfaceNamePrefix',
    help: 'What the interfaces of the pods of this node begin with, such as "veth" or "cali", for --detect-local-mode InterfaceNamePrefix.',
  },
} as const satisfies Readonly<Record<string, Row>>
