import { cidrPair } from '../cidrs.ts'
import { duration } from '../duration.ts'
import { featureGates } from '../feature-gates.ts'
import { int32 } from '../numbers.ts'
import { node, type Row } from '../row.ts'
import { onOff, oneOf, oneOfOrNothing } from '../value.ts'

const localMode = {
  ...oneOfOrNothing([
    'ClusterCIDR',
    'NodeCIDR',
    'BridgeInterface',
    'InterfaceNamePrefix',
  ]),
  metavar: 'MODE',
}

const proxyMode = {
  ...oneOfOrNothing(['userspace', 'iptables', 'ipvs', 'nftables']),
  metavar: 'MODE',
}

/** The rest of kube-proxy's flags that do something here. */
export const kubeProxy = {
  'proxy-mode': {
    commands: node,
    group: 'As kube-proxy has them',
    type: proxyMode,
    default: '',
    defaultText: 'iptables, or userspace where that does not work',
    field: 'mode',
    help: 'What carries the traffic. "userspace": Usher itself, which can try another endpoint and count bytes. "iptables" and "ipvs": rules in the kernel, by which packets pass Usher by. A mode that does not work here falls back: ipvs to iptables to userspace; the log, /proxyMode and `usher status` say which runs and why. Empty: what annotation net.beta.kubernetes.io/proxy-mode of the Node says; else userspace when --capture, --relay, --relay-workers, --proxy-port-range, --keep-rules or --state-dir asks for a thing that only it has; else iptables. "nftables" is to come, and goes on as iptables.',
  },
  'cluster-cidr': {
    commands: node,
    group: 'As kube-proxy has them',
    type: cidrPair,
    default: '',
    field: 'clusterCIDR',
    help: "The cluster's pod addresses, one CIDR or one of each family with a comma between. Clients from there count as on this node with --detect-local-mode ClusterCIDR.",
  },
  'detect-local-mode': {
    commands: node,
    group: 'As kube-proxy has them',
    type: localMode,
    default: '',
    defaultText: 'ClusterCIDR',
    field: 'detectLocalMode',
    help: "How to tell pods of this node, to whose connections externalTrafficPolicy does not apply: ClusterCIDR by --cluster-cidr, NodeCIDR by the Node's podCIDRs, BridgeInterface by --pod-bridge-interface, InterfaceNamePrefix by --pod-interface-name-prefix. The last two need a kernel mode: in userspace mode a socket does not tell the interface.",
  },
  'iptables-sync-period': {
    commands: node,
    group: 'As kube-proxy has them',
    type: duration('above zero'),
    default: '30s',
    field: 'iptables.syncPeriod',
    help: '--sync-period of iptables and userspace mode when that is not given.',
  },
  'iptables-min-sync-period': {
    commands: node,
    group: 'As kube-proxy has them',
    type: duration('or zero'),
    default: '1s',
    field: 'iptables.minSyncPeriod',
    help: '--min-sync-period of iptables mode when that is not given; of userspace mode too when it is set.',
  },
  'oom-score-adj': {
    commands: node,
    group: 'As kube-proxy has them',
    type: int32(-1000, 1000),
    default: '-999',
    field: 'oomScoreAdj',
    help: 'How gladly the kernel ends this process when memory is short: -1000 never, 1000 first.',
  },
  'feature-gates': {
    commands: node,
    group: 'As kube-proxy has them',
    type: featureGates,
    default: '',
    field: 'featureGates',
    help: 'Gates as NAME=true,NAME=false. Usher has none; those given are named in a warning.',
  },
  'healthz-port': {
    commands: node,
    group: 'As kube-proxy has them',
    type: int32(0, 65_535),
    default: '10256',
    help: 'Deprecated, and only without --config: the port of --healthz-bind-address; 0 does without.',
  },
  'metrics-port': {
    commands: node,
    group: 'As kube-proxy has them',
    type: int32(0, 65_535),
    default: '10249',
    help: 'Deprecated, and only without --config: the port of --metrics-bind-address; 0 does without.',
  },
  cleanup: {
    commands: node,
    group: 'As kube-proxy has them',
    type: onOff,
    default: 'false',
    help: 'Remove what Usher or kube-proxy left in the kernel, and exit; the same as `usher cleanup`.',
  },
  'init-only': {
    commands: node,
    group: 'As kube-proxy has them',
    type: onOff,
    default: 'false',
    help: 'Set the kernel settings that iptables and ipvs mode rely on (conntrack, route_localnet), and exit: 0 when all are set, 1 with the reason for what is not. Userspace mode needs none.',
  },
  version: {
    commands: node,
    group: 'As kube-proxy has them',
    type: onOff,
    default: 'false',
    help: 'Print the version and exit.',
  },
  'kube-api-content-type': {
    commands: node,
    group: 'As kube-proxy has them',
    type: oneOf([
      'application/vnd.kubernetes.protobuf',
      'application/json',
      'application/cbor',
    ]),
    default: 'application/vnd.kubernetes.protobuf',
    field: 'clientConnection.contentType',
    noEffect: 'here: Usher speaks JSON to the API server',
    help: 'Content type of requests to the API server.',
  },
} as const satisfies Readonly<Record<string, Row>>
