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
export const listening = group('Where it listens', node, {
  'bind-address': {
    commands: nodes,
    type: ip,
    defaultFor: { demo: '127.0.0.1' },
    field: 'bindAddress',
    defaultText: '127.0.0.1 and ::1',
    help: 'Address on which proxy ports listen with --capture listen or none: the ports that stand in for VIPs (addresses that clients dial) which this host does not have. 0.0.0.0: on all addresses, for clients on other hosts. Captures with rules have an address of their own.',
  },
  'bind-address-hard-fail': {
    type: onOff,
    field: 'bindAddressHardFail',
    help: 'End when the port for metrics or health is taken, or at the start a port of a Service, instead of trying again.',
  },
  'proxy-port-range': {
    commands: nodes,
    type: portRange,
    defaultText: 'the system chooses',
    field: 'portRange',
    help: 'Ports to take proxy ports from, as FIRST-LAST or FIRST+SIZE, like 30000-32000.',
  },
  capture: {
    type: oneOf(['auto', 'nftables', 'iptables', 'local', 'listen', 'none']),
    default: 'auto',
    help: 'How traffic for VIPs (addresses that clients dial) gets to Usher. "nftables" and "iptables": rules of the kernel lead it to proxy ports. "local": makes VIPs addresses of this host, and listens on them. "listen": changes nothing on the host, listens on those VIPs that are its addresses anyway, and on proxy ports for the others. "none": proxy ports for all. "auto": the first of nftables, iptables, local and listen that works here.',
  },
  'service-cidr': {
    type: cidrPair,
    defaultText: 'from the ServiceCIDR objects',
    help: 'Where ClusterIPs come from, one CIDR of each IP family at most. With --capture local one route does for all of IPv4; without it there is one for each ClusterIP.',
  },
  'nodeport-addresses': {
    type: nodePortAddresses,
    defaultText: 'all; primary in nftables mode',
    field: 'nodePortAddresses',
    help: 'Addresses of this node that answer NodePorts, as CIDRs, primary (the first of each family in the Node object), localhost or all. Where --proxy-mode nftables is asked for the default is primary, as with kube-proxy, also when another mode takes its place.',
  },
  'external-ips': {
    type: onOff,
    default: 'true',
    help: 'Serve spec.externalIPs of Services. With false they are not served: everyone who may create a Service can take any address by them (CVE-2020-8554).',
  },
  'state-dir': {
    type: anyText('DIR'),
    defaultText: 'nothing is remembered',
    help: 'Directory in which proxy ports are remembered, so that they are the same after a restart.',
  },
  'keep-rules': {
    type: onOff,
    help: 'Leave the rules (or addresses) of --capture in place at the end, for a restart: until the next Usher accepts, new clients wait instead of being refused (with local they are refused). `usher cleanup` removes them.',
  },
  'metrics-bind-address': {
    commands: proxies,
    type: bindAddress(metricsPort),
    defaultFor: { demo: '127.0.0.1:0' },
    field: 'metricsBindAddress',
    help: 'Where Prometheus metrics and `usher status` are answered; port 0 lets the system choose, "off" does without.',
  },
  'healthz-bind-address': {
    commands: proxies,
    type: bindAddress(healthzPort),
    defaultFor: { sidecar: '127.0.0.1:10256', demo: '127.0.0.1:0' },
    field: 'healthzBindAddress',
    help: 'Where /healthz and /livez are answered; port 0 lets the system choose, "off" does without.',
  },
})

/** How fast, and how much at most. */
export const pace = group('Pace and limits', proxies, {
  'drain-timeout': {
    type: duration('or zero'),
    default: '30s',
    help: 'How long open connections may go on after SIGTERM or Ctrl-C before they are reset.',
  },
  'reserved-fds': {
    type: integer(16, 1_000_000),
    default: '128',
    help: 'File descriptors kept back from connections, for files, metrics and health.',
  },
  'sync-period': {
    commands: node,
    type: duration('above zero'),
    default: '30s',
    help: 'How often to resync: to check that everything is as wanted, even when nothing changed. Wins over --iptables-sync-period and --ipvs-sync-period.',
  },
  'min-sync-period': {
    commands: node,
    type: duration('or zero'),
    default: '1s',
    help: 'Longest wait between two rounds of changes: after a round Usher waits 20 times as long as the round took, but no longer than this, and applies all changes that arrive meanwhile in one round. After a quiet time rounds follow without a wait, until they have taken one second in total. 0: never wait. At most --sync-period. Wins over --iptables-min-sync-period and --ipvs-min-sync-period.',
  },
})

/** How a sidecar begins and ends with the application beside it. */
export const pod = group('Life in a pod', ['sidecar'], {
  linger: {
    type: duration('or zero'),
    default: '0',
    help: 'How long to go on accepting after SIGTERM or Ctrl-C, with /healthz red, before connections are drained: for an application that is told to end at the same moment and still has to connect. A second signal ends the lingering.',
  },
  'exit-when-idle': {
    type: duration('or zero'),
    default: '0',
    help: 'End with exit code 0 when no connection or UDP flow has been open for so long, counted from the first one on; 0 is never. For Jobs where a sidecar would keep the pod from ending.',
  },
  quitquitquit: {
    type: onOff,
    help: 'POST /quitquitquit on the metrics address does what SIGTERM does. That address has to be a loopback one.',
  },
})

/** What is logged, and how. */
export const logging = group('Log', proxies, {
  'log-level': {
    type: oneOf(['fatal', 'error', 'warn', 'info', 'debug', 'trace']),
    default: 'info',
    defaultFor: { demo: 'warn' },
    help: 'How much to log; "debug" has a record of every connection.',
  },
  'log-format': {
    type: oneOf(['auto', 'json', 'pretty']),
    default: 'auto',
    help: '"json" has one object a line, "pretty" is for people, "auto" is "pretty" on a terminal.',
  },
  v: {
    commands: node,
    type: int32(0),
    short: 'v',
    field: 'logging.verbosity',
    beatsFile: true,
    help: 'How much to log, as kube-proxy counts: 4 and 5 are "debug", 6 and more "trace". --log-level wins.',
  },
  'logging-format': {
    commands: node,
    type: oneOf(['text', 'json']),
    field: 'logging.format',
    beatsFile: true,
    help: '"json" is --log-format json, "text" is --log-format pretty; not given it is neither. --log-format wins.',
  },
})
