import { goSpan } from '../duration.ts'
import { int32 } from '../numbers.ts'
import { node, type Row } from '../row.ts'
import { onOff } from '../value.ts'

const common = {
  commands: node,
  group: 'As kube-proxy has them',
  modes: ['iptables', 'ipvs'],
} as const

/** The kernel's table of connections, by which the kernel modes lead packets. */
export const conntrack = {
  'conntrack-max-per-core': {
    ...common,
    type: int32(0),
    default: '32768',
    field: 'conntrack.maxPerCore',
    help: 'How many connections the kernel tracks at most, for each core (nf_conntrack_max, 1048576 at most altogether); 0 leaves the limit as it is.',
  },
  'conntrack-min': {
    ...common,
    type: int32(0),
    default: '131072',
    field: 'conntrack.min',
    help: 'And how many at least, however few cores there are.',
  },
  'conntrack-max': {
    ...common,
    type: int32(0),
    default: '0',
    help: 'The same limit whatever the cores, as before kube-proxy 1.17; 0 goes by the other two.',
  },
  'conntrack-tcp-timeout-established': {
    ...common,
    type: goSpan,
    default: '24h',
    field: 'conntrack.tcpEstablishedTimeout',
    help: 'The kernel forgets a TCP connection on which nothing moved for so long; 0 leaves it as it is.',
  },
  'conntrack-tcp-timeout-close-wait': {
    ...common,
    type: goSpan,
    default: '1h',
    field: 'conntrack.tcpCloseWaitTimeout',
    help: 'The same for one that a side has finished; 0 leaves it as it is.',
  },
  'conntrack-tcp-be-liberal': {
    ...common,
    type: onOff,
    default: 'false',
    field: 'conntrack.tcpBeLiberal',
    help: 'Do not take packets outside their TCP window for invalid (nf_conntrack_tcp_be_liberal): iptables mode then has no rule that drops invalid packets.',
  },
  'conntrack-udp-timeout': {
    ...common,
    type: goSpan,
    default: '0s',
    field: 'conntrack.udpTimeout',
    help: 'The kernel forgets a UDP client without a reply after so long; 0 leaves it as it is.',
  },
  'conntrack-udp-timeout-stream': {
    ...common,
    type: goSpan,
    default: '0s',
    field: 'conntrack.udpStreamTimeout',
    help: 'The same for one with a reply; 0 leaves it as it is.',
  },
} as const satisfies Readonly<Record<string, Row>>
