import { modeNames } from '../../mode/mode.ts'
import { healthzPort, metricsPort } from '../kube-proxy/configuration.ts'
import { group, node } from '../row.ts'
import { onOff, oneOfOrNothing, featureGates } from '../types/basic.ts'
import { cidrPair } from '../types/addresses.ts'
import { duration, int32 } from '../types/quantities.ts'

const localMode = oneOfOrNothing('MODE', [
  'ClusterCIDR',
  'NodeCIDR',
  'BridgeInterface',
  'InterfaceNamePrefix',
])

const proxyMode = oneOfOrNothing('MODE', modeNames)

/** The rest of kube-proxy's flags that do something here. */
export const kubeProxy = group('As kube-proxy has them', node, {
  'proxy-mode': {
    type: proxyMode,
    defaultText: 'iptables, or userspace where that does not work',
    field: 'mode',
    help: 'What carries the traffic. "userspace": Usher itself, which can try another endpoint and count bytes. "nftables", "iptables" and "ipvs": rules in the kernel; packets do not go through Usher. A mode that does not work here falls back: nftables or ipvs to iptables to userspace; the log, /proxyMode and `usher status` say which runs and why. Empty: userspace when --capture, --relay, --relay-workers, --proxy-port-range, --keep-rules or --state-dir asks for a thing that only it has; else what annotation net.beta.kubernetes.io/proxy-mode of the Node says; else iptables.',
  },
  'cluster-cidr': {
    type: cidrPair,
    field: 'clusterCIDR',
    help: "The cluster's pod addresses, one CIDR or one of each family with a comma between. Clients from there count as on this node with --detect-local-mode ClusterCIDR.",
  },
  'detect-local-mode': {
    type: localMode,
    defaultText: 'ClusterCIDR',
    field: 'detectLocalMode',
    help: "How to recognise pods of this node, to whose connections externalTrafficPolicy does not apply: ClusterCIDR by --cluster-cidr, NodeCIDR by the Node's podCIDRs, BridgeInterface by --pod-bridge-interface, InterfaceNamePrefix by --pod-interface-name-prefix. The last two need a kernel mode: in userspace mode the interface of a client is not known.",
  },
  'iptables-sync-period': {
    type: duration('above zero'),
    field: 'iptables.syncPeriod',
    help: '--sync-period of iptables and userspace mode when that is not given.',
  },
  'iptables-min-sync-period': {
    type: duration('or zero'),
    field: 'iptables.minSyncPeriod',
    help: '--min-sync-period of iptables and userspace mode when that is not given.',
  },
  'oom-score-adj': {
    type: int32(-1000, 1000),
    field: 'oomScoreAdj',
    help: 'How readily the kernel ends this process when memory is short: -1000 never, 1000 first.',
  },
  'feature-gates': {
    type: featureGates,
    field: 'featureGates',
    help: 'Gates as NAME=true,NAME=false. Two have an effect: AllowServiceExternalIPs=false is --external-ips=false, and in nftables mode KubeProxyNFTablesLocalhostNodePorts=true is --nftables-localhost-nodeports where --nodeport-addresses names loopback. Others are named in a warning.',
  },
  'healthz-port': {
    type: int32(0, 65_535),
    default: String(healthzPort),
    help: 'Deprecated, and only without --config: the port of --healthz-bind-address; 0 does without.',
  },
  'metrics-port': {
    type: int32(0, 65_535),
    default: String(metricsPort),
    help: 'Deprecated, and only without --config: the port of --metrics-bind-address; 0 does without.',
  },
  cleanup: {
    type: onOff,
    help: 'Remove what Usher or kube-proxy left in the kernel, and exit; the same as `usher cleanup`.',
  },
  'init-only': {
    type: onOff,
    help: 'Set the kernel settings that Usher relies on (conntrack where rules of the kernel lead clients, and route_localnet for iptables mode), and exit: 0 when all are set, 1 with the reason for what is not.',
  },
  version: {
    type: onOff,
    help: 'Print the version and exit.',
  },
})
