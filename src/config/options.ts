import { bindAddress, ip, serverAddress } from './address.ts'
import { bytes } from './bytes.ts'
import type { Command } from './commands.ts'
import { duration, durations } from './duration.ts'
import { portRange } from './port-range.ts'
import { route } from './routes.ts'
import { integer, list, onOff, oneOf, text, type OptionType } from './value.ts'

/** One flag: everything that parsing, help and the README say of it comes from here. */
export interface Row {
  readonly commands: readonly Command[]
  readonly group: Group
  readonly type: OptionType<unknown>
  /** What a user would type to get the default; '' for none, or for an empty list. */
  readonly default: string
  /** Other defaults for some commands. */
  readonly defaultFor?: Partial<Readonly<Record<Command, string>>>
  /** What to show in place of a default that is empty. */
  readonly defaultText?: string
  /** Arguments without a flag are further values of this list. */
  readonly positional?: true
  readonly help: string
}

export type Group =
  'What' | 'Where it listens' | 'TCP' | 'UDP' | 'Pace and limits' | 'Log'

const proxies = ['run', 'sidecar', 'demo', 'check'] as const
const nodes = ['run', 'demo', 'check'] as const

/**
 * The one table of options, rows of a group together. A flag's camelCase spelling is its
 * name in `OptionsOf`.
 */
export const table = {
  manifests: {
    commands: ['run', 'check'],
    group: 'What',
    type: list(text('PATH')),
    default: '',
    positional: true,
    help: 'File or directory with manifests (YAML or JSON): v1 Service, Endpoints, Node, List and discovery.k8s.io/v1 EndpointSlice. May be given several times; paths without a flag count too.',
  },
  route: {
    commands: ['sidecar'],
    group: 'What',
    type: list(route),
    default: '',
    help: 'Where to listen and where to go: tcp://LISTEN=BACKEND,BACKEND or udp://LISTEN=BACKEND,BACKEND, each an address with a port; ?affinity=3h at the end keeps a client on its backend. May be given several times.',
  },
  once: {
    commands: ['demo'],
    group: 'What',
    type: onOff,
    default: 'false',
    help: 'Do everything once, check that it came out as expected, and exit 0 or 1.',
  },
  json: {
    commands: ['status'],
    group: 'What',
    type: onOff,
    default: 'false',
    help: 'Print the whole answer as JSON.',
  },
  address: {
    commands: ['status'],
    group: 'What',
    type: serverAddress(10249),
    default: '127.0.0.1:10249',
    help: 'The metrics address of the Usher to ask, the one it was given as --metrics-bind-address.',
  },
  'bind-address': {
    commands: nodes,
    group: 'Where it listens',
    type: ip,
    default: '0.0.0.0',
    defaultFor: { demo: '127.0.0.1' },
    help: 'Address on which proxy ports listen, the ports that stand in for VIPs (addresses that clients dial) which this host does not have.',
  },
  'proxy-port-range': {
    commands: nodes,
    group: 'Where it listens',
    type: portRange,
    default: '',
    defaultText: 'the system chooses',
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
    help: 'Where Prometheus metrics and `usher status` are answered; port 0 lets the system choose, "off" does without.',
  },
  'healthz-bind-address': {
    commands: proxies,
    group: 'Where it listens',
    type: bindAddress(10256),
    default: '0.0.0.0:10256',
    defaultFor: { demo: '127.0.0.1:0' },
    help: 'Where /healthz and /livez are answered; port 0 lets the system choose, "off" does without.',
  },
  'dial-ladder': {
    commands: proxies,
    group: 'TCP',
    type: durations,
    default: '250ms,500ms,1s,2s',
    help: 'How long to wait for each endpoint to accept before another is tried beside it; together, how long a client waits at most. 1 to 16 steps.',
  },
  'half-close-timeout': {
    commands: proxies,
    group: 'TCP',
    type: duration('above zero'),
    default: '60s',
    help: 'End a connection that one side has finished when no byte moved for so long.',
  },
  'tcp-idle-timeout': {
    commands: proxies,
    group: 'TCP',
    type: duration('or zero'),
    default: '0',
    help: 'End any connection on which no byte moved for so long; 0 is never.',
  },
  'connection-buffer': {
    commands: proxies,
    group: 'TCP',
    type: bytes('4KiB', '16MiB'),
    default: '192KiB',
    help: 'Bytes that one direction of one connection may hold in memory while its reader is slow.',
  },
  'udp-reply-timeout': {
    commands: proxies,
    group: 'UDP',
    type: duration('above zero'),
    default: '5s',
    help: 'Forget a UDP client whose endpoint has not replied yet when nothing came for so long.',
  },
  'udp-timeout': {
    commands: proxies,
    group: 'UDP',
    type: duration('above zero'),
    default: '30s',
    help: 'Forget a UDP client whose endpoint has replied when nothing moved for so long.',
  },
  'udp-max-flows-per-port': {
    commands: proxies,
    group: 'UDP',
    type: integer(1, 1_000_000),
    default: '16384',
    help: 'UDP clients that one Service port remembers; beyond it the one idle for longest goes.',
  },
  'udp-max-flows': {
    commands: proxies,
    group: 'UDP',
    type: integer(1, 10_000_000),
    default: '65536',
    help: 'UDP clients that all Service ports together remember.',
  },
  'drain-timeout': {
    commands: proxies,
    group: 'Pace and limits',
    type: duration('or zero'),
    default: '30s',
    help: 'How long open connections may go on after SIGTERM or Ctrl-C before they are reset.',
  },
  'reserved-fds': {
    commands: proxies,
    group: 'Pace and limits',
    type: integer(16, 1_000_000),
    default: '128',
    help: 'File descriptors kept back from connections, for files, metrics and health.',
  },
  'sync-period': {
    commands: ['run', 'check'],
    group: 'Pace and limits',
    type: duration('above zero'),
    default: '30s',
    help: 'How often to make sure that all is as it should be, even when nothing changed.',
  },
  'min-sync-period': {
    commands: ['run', 'check'],
    group: 'Pace and limits',
    type: duration('or zero'),
    default: '0',
    help: 'Shortest time between two rounds of changes; more gathers more changes in one. At most --sync-period.',
  },
  'log-level': {
    commands: proxies,
    group: 'Log',
    type: oneOf(['fatal', 'error', 'warn', 'info', 'debug', 'trace']),
    default: 'info',
    defaultFor: { demo: 'warn' },
    help: 'How much to log; "debug" has a record of every connection.',
  },
  'log-format': {
    commands: proxies,
    group: 'Log',
    type: oneOf(['auto', 'json', 'pretty']),
    default: 'auto',
    help: '"json" has one object a line, "pretty" is for people, "auto" is "pretty" on a terminal.',
  },
} as const satisfies Readonly<Record<string, Row>>
