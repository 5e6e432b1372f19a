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

/** The rest of kube-proxy's flags that do something here. */
export const kubeProxy = {
  'proxy-mode': {
    commands: node,
    group: 'As kube-proxy has them',
    type: oneOfOrNothing(['userspace', 'iptables', 'ipvs', 'nftables']),
    default: '',
    defaultText: 'userspace',
    field: 'mode',
    help: 'Usher has "userspace" and runs it whatever is asked for; another mode is warned of.',
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
    help: "How to tell pods of this node, to whose connections externalTrafficPolicy does not apply: ClusterCIDR by --cluster-cidr, NodeCIDR by the Node's podCIDRs. BridgeInterface and InterfaceNamePrefix have no effect: a socket does not tell the interface.",
  },
  'iptables-sync-period': {
    commands: node,
    group: 'As kube-proxy has them',
    type: duration('above zero'),
    default: '30s',
    field: 'iptables.syncPeriod',
    help: '--sync-period when that is not given.',
  },
  'iptables-min-sync-period': {
    commands: node,
    group: 'As kube-proxy has them',
    type: duration('or zero'),
    default: '1s',
    defaultText: 'that of --min-sync-period',
    field: 'iptables.minSyncPeriod',
    help: '--min-sync-period when that is not given.',
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
    help: 'Say that there is nothing to prepare, and exit 0: Usher needs no kernel settings.',
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
