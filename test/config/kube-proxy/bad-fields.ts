const iptables = 'KubeProxyIPTablesConfiguration'
const conntrack = 'KubeProxyLinuxConfiguration.KubeProxyConntrackConfiguration'

/**
 * Lines of a configuration file that are refused, each with all that is said, of which
 * `KubeProxyConfiguration.` is left out at the front.
 */
export const badFields: readonly (readonly [string, string])[] = [
  [
    'iptables: {syncPeriod: -5s}',
    'SyncPeriod: Invalid value: "-5s": must be greater than 0, KubeProxyConfiguration.SyncPeriod: Invalid value: "1s": must be greater than or equal to KubeProxyConfiguration.MinSyncPeriod',
  ],
  [
    'iptables: {minSyncPeriod: -2s}',
    'MinSyncPeriod: Invalid value: "-2s": must be greater than or equal to 0',
  ],
  [
    'iptables: {syncPeriod: 1s, minSyncPeriod: 5s}',
    'SyncPeriod: Invalid value: "5s": must be greater than or equal to KubeProxyConfiguration.MinSyncPeriod',
  ],
  [
    'iptables: {masqueradeBit: -10}',
    `${iptables}.MasqueradeBit: Invalid value: -10: must be within the range [0, 31]`,
  ],
  [
    '{mode: ipvs, iptables: {syncPeriod: 500ms}}',
    `${iptables}.SyncPeriod: Invalid value: "1s": must be greater than or equal to KubeProxyConfiguration.${iptables}.MinSyncPeriod`,
  ],
  [
    '{mode: ipvs, ipvs: {syncPeriod: -1s}}',
    'SyncPeriod: Invalid value: "-1s": must be greater than 0, KubeProxyConfiguration.SyncPeriod: Invalid value: "0s": must be greater than or equal to KubeProxyConfiguration.MinSyncPeriod',
  ],
  [
    '{mode: ipvs, ipvs: {tcpTimeout: -1s}}',
    'KubeProxyIPVSConfiguration.TCPTimeout: Invalid value: "-1s": must be greater than or equal to 0',
  ],
  [
    '{mode: ipvs, ipvs: {tcpFinTimeout: -1s}}',
    'KubeProxyIPVSConfiguration.TCPFinTimeout: Invalid value: "-1s": must be greater than or equal to 0',
  ],
  [
    '{mode: ipvs, ipvs: {udpTimeout: -1s}}',
    'KubeProxyIPVSConfiguration.UDPTimeout: Invalid value: "-1s": must be greater than or equal to 0',
  ],
  [
    '{mode: ipvs, ipvs: {excludeCIDRs: ["::1/128", "::1"]}}',
    'KubeProxyIPVSConfiguration.ExcludeCidrs[1]: Invalid value: "::1": must be a valid CIDR',
  ],
  [
    '{mode: nftables, nftables: {masqueradeBit: 32}}',
    'KubeProxyNFTablesConfiguration.MasqueradeBit: Invalid value: 32: must be within the range [0, 31]',
  ],
  [
    'conntrack: {maxPerCore: -1}',
    `${conntrack}.MaxPerCore: Invalid value: -1: must be greater than or equal to 0`,
  ],
  [
    'conntrack: {min: -1}',
    `${conntrack}.Min: Invalid value: -1: must be greater than or equal to 0`,
  ],
  [
    'conntrack: {tcpEstablishedTimeout: -5s}',
    `${conntrack}.TCPEstablishedTimeout: Invalid value: "-5s": must be greater than or equal to 0`,
  ],
  [
    'conntrack: {tcpCloseWaitTimeout: -5s}',
    `${conntrack}.TCPCloseWaitTimeout: Invalid value: "-5s": must be greater than or equal to 0`,
  ],
  [
    'conntrack: {udpTimeout: -5s}',
    `${conntrack}.UDPTimeout: Invalid value: "-5s": must be greater than or equal to 0`,
  ],
  [
    'conntrack: {udpStreamTimeout: -5s}',
    `${conntrack}.UDPStreamTimeout: Invalid value: "-5s": must be greater than or equal to 0`,
  ],
  [
    'oomScoreAdj: 1001',
    'KubeProxyLinuxConfiguration.OOMScoreAdj: Invalid value: 1001: must be within the range [-1000, 1000]',
  ],
  [
    'mode: kernelspace',
    'Mode.ProxyMode: Invalid value: "kernelspace": must be nftables, ipvs, iptables, userspace or blank (blank means iptables, or userspace where that does not work)',
  ],
  [
    'configSyncPeriod: -1s',
    'ConfigSyncPeriod: Invalid value: "-1s": must be greater than 0',
  ],
  [
    'clientConnection: {burst: -1}',
    'ClientConnection.Burst: Invalid value: -1: must be greater than or equal to 0',
  ],
  ['udpIdleTimeout: -1s', 'UDPIdleTimeout: Invalid value: "-1s": must be greater than 0'],
  [
    'showHiddenMetricsForVersion: v1',
    'ShowHiddenMetricsForVersion: Invalid value: "v1": must be empty or a version like 1.35',
  ],
  [
    'bindAddress: "10.10.12.11:2000"',
    'NodeIPOverride[0]: Invalid value: "10.10.12.11:2000": must be a valid IP (e.g. 10.100.0.0 or fde4:8dba:82e1::)',
  ],
  [
    'healthzBindAddress: localhost',
    'HealthzBindAddress: Invalid value: "localhost": must be IP:port',
  ],
  [
    'healthzBindAddress: localhost:80',
    'HealthzBindAddress: Invalid value: "localhost": must be a valid IP',
  ],
  [
    'metricsBindAddress: "127.0.0.1:http"',
    'MetricsBindAddress: Invalid value: "http": must be a valid port',
  ],
  [
    'metricsBindAddress: "127.0.0.1:70000"',
    'MetricsBindAddress: Invalid value: "70000": must be a valid port',
  ],
  [
    'clusterCIDR: 192.168.59.0',
    'DetectLocal.ClusterCIDRs[0]: Invalid value: "192.168.59.0": must be a valid CIDR block (e.g. 10.100.0.0/16 or fde4:8dba:82e1::/48)',
  ],
  [
    'clusterCIDR: 10.0.0.0/8,11.0.0.0/8',
    'DetectLocal.ClusterCIDRs: Invalid value: ["10.0.0.0/8","11.0.0.0/8"]: must be a either a single CIDR or dual-stack pair of CIDRs (e.g. [10.100.0.0/16, fde4:8dba:82e1::/48]',
  ],
  [
    'portRange: 5-1',
    'PortRange: Invalid value: "5-1": must be a valid port range (e.g. 300-2000)',
  ],
  [
    'nodePortAddresses: [10.0.0.0/8, x]',
    `NodePortAddresses[1]: Invalid value: "x": must be a valid CIDR or one of the keywords 'primary', 'localhost', 'all'`,
  ],
  [
    'nodePortAddresses: [primary, 10.0.0.0/8, primary]',
    'NodePortAddresses[2]: Duplicate value: "primary"',
  ],
  [
    'detectLocalMode: Guess',
    'DetectLocalMode: Unsupported value: "Guess": supported values: "ClusterCIDR", "NodeCIDR", "BridgeInterface", "InterfaceNamePrefix", ""',
  ],
  [
    'detectLocalMode: BridgeInterface',
    'DetectLocal.InterfaceName: Invalid value: "": must not be empty',
  ],
  [
    'detectLocalMode: InterfaceNamePrefix',
    'DetectLocal.InterfacePrefix: Invalid value: "": must not be empty',
  ],
  [
    'logging: {format: xml}',
    'logging.format: Invalid value: "xml": Unsupported log format',
  ],
  [
    'logging: {verbosity: -1}',
    'logging.verbosity: Invalid value: -1: must be greater than or equal to 0',
  ],
]

/** Files of which nothing can be made, each with all that is said after the file's name. */
export const badFiles: readonly (readonly [string, string])[] = [
  ['', 'the file is empty'],
  [
    '- a',
    'a list is not an object; give apiVersion: kubeproxy.config.k8s.io/v1alpha1 and kind: KubeProxyConfiguration',
  ],
  ['a: [', 'line 1: '],
  [
    '{apiVersion: kubeproxy.config.k8s.io/v1alpha1}',
    'failed to decode: the kind is missing; give apiVersion: kubeproxy',
  ],
  ['{kind: KubeProxyConfiguration}', 'failed to decode: the apiVersion is missing; give'],
  [
    '{apiVersion: componentconfig/v1alpha1, kind: KubeProxyConfiguration}',
    'failed to decode: apiVersion "componentconfig/v1alpha1" is that of kube-proxy 1.8 and older; give apiVersion: kubeproxy.config.k8s.io/v1alpha1',
  ],
  [
    '{apiVersion: kubeproxy.config.k8s.io/v1, kind: KubeProxyConfiguration}',
    'apiVersion "kubeproxy.config.k8s.io/v1" is not a version Usher knows; give',
  ],
  [
    '{apiVersion: v1, kind: ConfigMap}',
    'kind "ConfigMap" is not KubeProxyConfiguration; give',
  ],
]

/** Fields of the wrong type, which lenient decoding does not take either. */
export const wrongTypes: readonly (readonly [string, string])[] = [
  [
    'iptables: {masqueradeBit: x}',
    'iptables.masqueradeBit: "x" is not a whole number of 32 bits',
  ],
  ['iptables: {masqueradeBit: 1.5}', 'iptables.masqueradeBit: 1.5 is not a whole number'],
  [
    'conntrack: {min: 4294967296}',
    'conntrack.min: 4294967296 is not a whole number of 32 bits',
  ],
  ['iptables: []', 'iptables: a list is not an object'],
  ['bindAddress: 1', 'bindAddress: 1 is not text'],
  ['bindAddressHardFail: "true"', 'bindAddressHardFail: "true" is not true or false'],
  ['configSyncPeriod: 30', 'configSyncPeriod: 30 is not a duration like 30s or 1m30s'],
  ['configSyncPeriod: soon', 'configSyncPeriod: "soon" is not a duration'],
  ['nodePortAddresses: primary', 'nodePortAddresses: "primary" is not a list of texts'],
  [
    'featureGates: {A: 1}',
    'featureGates: an object is not a mapping of names to true or false',
  ],
  ['logging: {flushFrequency: 1.5}', 'logging.flushFrequency: 1.5 is not a duration'],
  [
    'logging: {options: {json: {infoBufferSize: x}}}',
    'logging.options.json.infoBufferSize: "x" is not a quantity like "0" or 64Ki',
  ],
  [
    '{bindAddress: 1, mode: 2}',
    'failed to decode: [bindAddress: 1 is not text, mode: 2 is not text]',
  ],
]
