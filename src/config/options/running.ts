import { healthzPort, metricsPort } from '../kube-proxy/configuration.ts'
import { group, node, nodes, proxies } from '../row.ts'
import {
  bindAddress,
  cidrPair,
  ip,
  nodePortAddresses,
  portRange,
} from '../types/addresses.ts'
import { anyText, onOff, oneOf } from '../types/basic.ts'
import { duration, int32, integer } from '../types/quantities.ts'

/** Where Usher listens. */
export const listening = group('Listening', node, {
  'bind-address': {
    commands: nodes,
    type: ip,
    defaultFor: { demo: '127.0.0.1' },
    field: 'bindAddress',
    defaultText: '127.0.0.1 and ::1',
    help: 'Address of the proxy ports of --capture listen and none, which stand in for VIPs (addresses that clients dial) that this host does not have. 0.0.0.0 listens on all addresses, for clients on other hosts. Captures with rules use an address of their own.',
  },
  'bind-address-hard-fail': {
    type: onOff,
    field: 'bindAddressHardFail',
    help: 'Exit if the port for metrics or health, or at startup a Service port, is in use, instead of retrying.',
  },
  'proxy-port-range': {
    commands: nodes,
    type: portRange,
    defaultText: 'the system chooses',
    field: 'portRange',
    help: 'Range to allocate proxy ports from, as FIRST-LAST or FIRST+SIZE, like 30000-32000.',
  },
  capture: {
    type: oneOf(['auto', 'nftables', 'iptables', 'local', 'listen', 'none']),
    default: 'auto',
    help: 'How traffic for VIPs (addresses that clients dial) reaches Usher. "nftables" and "iptables": kernel rules send it to proxy ports. "local": adds the VIPs to this host as addresses and listens on them. "listen": changes nothing on the host; listens on VIPs that this host already has, and on proxy ports for the rest. "none": proxy ports only. "auto": the first of nftables, iptables, local and listen that works here.',
  },
  'service-cidr': {
    type: cidrPair,
    defaultText: 'from the ServiceCIDR objects',
    help: 'ClusterIP ranges, at most one CIDR per IP family. With --capture local, one route then covers all of IPv4; without the range, each ClusterIP needs its own.',
  },
  'nodeport-addresses': {
    type: nodePortAddresses,
    defaultText: 'all; primary in nftables mode',
    field: 'nodePortAddresses',
    help: 'Addresses of this node that accept NodePort traffic: CIDRs, primary (the first of each family in the Node object), localhost or all. With --proxy-mode nftables the default is primary, as in kube-proxy, even if Usher falls back to another mode.',
  },
  'external-ips': {
    type: onOff,
    default: 'true',
    help: 'Serve spec.externalIPs of Services. Set to false if untrusted users can create Services: anyone who can may claim any address this way (CVE-2020-8554).',
  },
  'state-dir': {
    type: anyText('DIR'),
    defaultText: 'none',
    help: 'Directory for remembering proxy ports, so that they survive a restart; also needed for --orphan-timeout.',
  },
  'keep-rules': {
    type: onOff,
    help: 'Leave the rules (or addresses) of --capture in place on exit, for a restart: new clients wait until the next Usher accepts them instead of being refused (with local they are refused). `usher cleanup` removes them.',
  },
  'metrics-bind-address': {
    commands: proxies,
    type: bindAddress(metricsPort),
    defaultFor: { demo: '127.0.0.1:0' },
    field: 'metricsBindAddress',
    help: 'Address for Prometheus metrics and `usher status`; port 0 lets the system choose, "off" disables it.',
  },
  'healthz-bind-address': {
    commands: proxies,
    type: bindAddress(healthzPort),
    defaultFor: { sidecar: '127.0.0.1:10256', demo: '127.0.0.1:0' },
    field: 'healthzBindAddress',
    help: 'Address for /healthz and /livez; port 0 lets the system choose, "off" disables it.',
  },
})

/** How fast, and how much at most. */
export const pace = group('Timing and limits', proxies, {
  'drain-timeout': {
    type: duration('or zero'),
    default: '30s',
    help: 'How long open connections may continue after SIGTERM or Ctrl-C before they are reset.',
  },
  'orphan-timeout': {
    commands: node,
    type: duration('or zero'),
    default: '30s',
    help: 'If Usher crashes, how long the process that carries connections (the relay) goes on serving, until the next Usher with this --state-dir takes them over. 0: it ends at once.',
  },
  'reserved-fds': {
    type: integer(16, 1_000_000),
    default: '128',
    help: 'File descriptors reserved for files, metrics and health, not used for connections.',
  },
  'sync-period': {
    commands: node,
    type: duration('above zero'),
    default: '30s',
    help: 'Interval between resyncs, which verify and repair all state even if nothing changed. Takes precedence over --iptables-sync-period and --ipvs-sync-period.',
  },
  'min-sync-period': {
    commands: node,
    type: duration('or zero'),
    default: '1s',
    help: 'Longest wait between two syncs: after a sync Usher waits 20 times as long as it took, but no longer than this, and applies all changes that arrive meanwhile in one sync. After a quiet period, syncs follow without a wait until they have taken one second in total. 0: never wait. At most --sync-period. Takes precedence over --iptables-min-sync-period and --ipvs-min-sync-period.',
  },
})

/** How a sidecar begins and ends with the application beside it. */
export const pod = group('Pod lifecycle', ['sidecar'], {
  linger: {
    type: duration('or zero'),
    default: '0',
    help: 'How long to keep accepting after SIGTERM or Ctrl-C, with /healthz red, before draining starts: for an application that is stopped at the same time and still needs to connect. A second signal ends the wait.',
  },
  'exit-when-idle': {
    type: duration('or zero'),
    default: '0',
    help: 'Exit with code 0 once no connection or UDP flow has been open for this long, counted from the first one on; 0 means never. For Jobs in which a running sidecar would keep the pod from completing.',
  },
  quitquitquit: {
    type: onOff,
    help: 'Let POST /quitquitquit on the metrics address do what SIGTERM does. Requires a loopback metrics address.',
  },
})

/** How one Usher follows another. */
export const upgrade = group('Upgrade', ['run', 'check', 'sidecar'], {
  'take-over': {
    type: oneOf(['auto', 'off']),
    default: 'auto',
    help: '"auto": if another Usher answers at the control socket, take its place: what listens and what is connected passes from that process to this one, and it ends. "off": the start fails as long as another Usher has the control socket.',
  },
  'pod-dir': {
    commands: node,
    type: anyText('DIR'),
    defaultText: 'none',
    help: "For a pod: a directory that it alone has and that outlives its containers (an emptyDir). A pod that has served never takes over again: while another Usher serves, it waits, and so does one that another took over from, in place of ending, as the kubelet would start it again. Usher keeps a file `serving` there while this container serves, for a startup probe: on the node's ports any Usher may answer.",
  },
})

/** What is logged, and how. */
export const logging = group('Log', proxies, {
  'log-level': {
    type: oneOf(['fatal', 'error', 'warn', 'info', 'debug', 'trace']),
    default: 'info',
    defaultFor: { demo: 'warn' },
    help: 'Log verbosity; "debug" records every connection.',
  },
  'log-format': {
    type: oneOf(['auto', 'json', 'pretty']),
    default: 'auto',
    help: '"json": one object per line. "pretty": human-readable. "auto": "pretty" on a terminal, otherwise "json".',
  },
  v: {
    commands: node,
    type: int32(0),
    short: 'v',
    field: 'logging.verbosity',
    beatsFile: true,
    help: 'Log verbosity on kube-proxy\'s scale: 4 and 5 are "debug", 6 and up "trace". --log-level takes precedence.',
  },
  'logging-format': {
    commands: node,
    type: oneOf(['text', 'json']),
    field: 'logging.format',
    beatsFile: true,
    help: '"json" means --log-format json, "text" means --log-format pretty. If not given, it has no effect. --log-format takes precedence.',
  },
})
