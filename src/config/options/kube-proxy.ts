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
export const kubeProxy = group('kube-proxy compatibility', node, {
  'proxy-mode': {
    type: proxyMode,
    defaultText: 'iptables, or userspace where that does not work',
    field: 'mode',
    help: 'Data path. "userspace": Usher relays connections, can try another endpoint and counts bytes. "nftables", "iptables" and "ipvs": kernel rules; packets do not pass through Usher. A mode that does not work here falls back: nftables or ipvs to iptables to userspace; the log, /proxyMode and `usher status` say which mode runs and why. If empty: userspace if --capture, --relay, --relay-workers, --proxy-port-range, --keep-rules or --state-dir asks for something only that mode has; else the annotation net.beta.kubernetes.io/proxy-mode of the Node; else iptables.',
  },
  'cluster-cidr': {
    type: cidrPair,
    field: 'clusterCIDR',
    help: 'Pod address ranges of the cluster: one CIDR, or one per family separated by a comma. With --detect-local-mode ClusterCIDR, clients in them count as being on this node.',
  },
  'detect-local-mode': {
    type: localMode,
    defaultText: 'ClusterCIDR',
    field: 'detectLocalMode',
    help: "How to recognise pods of this node, which are exempt from externalTrafficPolicy: ClusterCIDR uses --cluster-cidr, NodeCIDR the podCIDRs of the Node, BridgeInterface --pod-bridge-interface, InterfaceNamePrefix --pod-interface-name-prefix. The last two need a kernel mode, because userspace mode does not know a client's interface.",
  },
  'iptables-sync-period': {
    type: duration('above zero'),
    field: 'iptables.syncPeriod',
    help: '--sync-period of iptables and userspace mode, if that flag is not given.',
  },
  'iptables-min-sync-period': {
    type: duration('or zero'),
    field: 'iptables.minSyncPeriod',
    help: '--min-sync-period of iptables and userspace mode, if that flag is not given.',
  },
  'oom-score-adj': {
    type: int32(-1000, 1000),
    field: 'oomScoreAdj',
    help: 'OOM score adjustment of this process: at -1000 the kernel never kills it when memory runs out, at 1000 it kills it first.',
  },
  'feature-gates': {
    type: featureGates,
    field: 'featureGates',
    help: 'Feature gates as NAME=true,NAME=false. Two have an effect: AllowServiceExternalIPs=false is --external-ips=false, and in nftables mode KubeProxyNFTablesLocalhostNodePorts=true is --nftables-localhost-nodeports if --nodeport-addresses names loopback. A warning names the others.',
  },
  'healthz-port': {
    type: int32(0, 65_535),
    default: String(healthzPort),
    help: 'Deprecated, and only without --config: port of --healthz-bind-address; 0 disables it.',
  },
  'metrics-port': {
    type: int32(0, 65_535),
    default: String(metricsPort),
    help: 'Deprecated, and only without --config: port of --metrics-bind-address; 0 disables it.',
  },
  cleanup: {
    type: onOff,
    help: 'Remove what Usher or kube-proxy left in the kernel, and exit; same as `usher cleanup`.',
  },
  'init-only': {
    type: onOff,
    help: 'Apply the kernel settings that Usher needs (conntrack for kernel rules, route_localnet for iptables mode) and exit: 0 when all are applied, 1 with the reason for those that are not.',
  },
  version: {
    type: onOff,
    help: 'Print the version and exit.',
  },
})
