import { bindAddress, ip } from '../address.ts'
import { portRange } from '../port-range.ts'
import { node, nodes, proxies, type Row } from '../row.ts'
import { onOff, oneOf } from '../value.ts'

/** Where Usher listens. */
export const listening = {
  'bind-address': {
    commands: nodes,
    group: 'Where it listens',
    type: ip,
    default: '0.0.0.0',
    defaultFor: { demo: '127.0.0.1' },
    field: 'bindAddress',
    help: 'Address on which proxy ports listen, the ports that stand in for VIPs (addresses that clients dial) which this host does not have.',
  },
  'bind-address-hard-fail': {
    commands: node,
    group: 'Where it listens',
    type: onOff,
    default: 'false',
    field: 'bindAddressHardFail',
    help: 'End when the port for metrics or health is taken, instead of trying again.',
  },
  'proxy-port-range': {
    commands: nodes,
    group: 'Where it listens',
    type: portRange,
    default: '',
    defaultText: 'the system chooses',
    field: 'portRange',
    help: 'Ports to take proxy ports from, as FIRST-LAST or FIRST+SIZE, like 30000-32000.',
  },
  capture: {
    commands: nodes,
    group: 'Where it listens',
    type: oneOf(['auto', 'local', 'none']),
    default: 'auto',
    help: 'How traffic gets to Usher: "local" listens on each VIP that is an address of this host, "none" gives every Service port a proxy port, "auto" is "local" where it can be and a proxy port elsewhere.',
  },
  'metrics-bind-address': {
    commands: proxies,
    group: 'Where it listens',
    type: bindAddress(10249),
    default: '127.0.0.1:10249',
    defaultFor: { demo: '127.0.0.1:0' },
    field: 'metricsBindAddress',
    help: 'Where Prometheus metrics and `usher status` are answered; port 0 lets the system choose, "off" does without.',
  },
  'healthz-bind-address': {
    commands: proxies,
    group: 'Where it listens',
    type: bindAddress(10256),
    default: '0.0.0.0:10256',
    defaultFor: { demo: '127.0.0.1:0' },
    field: 'healthzBindAddress',
    help: 'Where /healthz and /livez are answered; port 0 lets the system choose, "off" does without.',
  },
} as const satisfies Readonly<Record<string, Row>>
