import { orList } from '../../util/suggest.ts'
import { group, node } from '../row.ts'
import { anyText, list, oneOf, oneOfOrNothing, onOff, text } from '../types/basic.ts'
import { block, socketPath } from '../types/addresses.ts'
import { duration, integer } from '../types/quantities.ts'

/** Commands that give a running Usher an order, and those that ask it. */
const orderCommands = ['pause', 'resume', 'drain', 'undrain', 'weight', 'close'] as const
const queryCommands = ['status', 'get', 'top', 'tap', 'explain'] as const

const controlSocketHelp =
  'The control socket of the Usher to command: the path it was given as --control-socket.'

const asked =
  'The control socket of the Usher to query: the path it was given as --control-socket. Without this flag, the metrics address is queried.'

/** More than a terminal shows; see `ended` in observe/control-protocol.ts. */
const mostPerSecond = 1000

/** What `usher get` lists. */
export const listedKinds = [
  'services',
  'endpoints',
  'connections',
  'listeners',
  'routes',
] as const

export const listedKindsText = orList(listedKinds)

/** What `usher top` puts first. */
const sortings = ['new', 'active', 'failed', 'retries', 'bytes', 'name'] as const

/** What operators say to a running Usher. */
export const control = group('What', node, {
  name: {
    commands: ['pause', 'resume'],
    type: list(text('ROUTE')),
    positional: true,
    help: 'Name of a route, or of a Service as NAMESPACE/NAME or NAMESPACE/NAME:PORT. May be repeated: if one is wrong, none is changed.',
  },
  endpoint: {
    commands: ['drain', 'undrain'],
    type: list(text('ENDPOINT')),
    positional: true,
    help: 'Address and port of an endpoint, like 10.0.0.5:5432 or [2001:db8::5]:5432. May be repeated: if one is wrong, none is changed.',
  },
  'endpoint-weight': {
    commands: ['weight'],
    flag: 'endpoint',
    type: list(text('ENDPOINT')),
    positional: true,
    help: 'Address and port of an endpoint, like 10.0.0.5:5432 or [2001:db8::5]:5432, followed by its weight.',
  },
  kind: {
    commands: ['get'],
    // Also by other names, which none has to be shown.
    type: list({ ...text('KIND'), choices: listedKinds }),
    positional: true,
    help: `What to list: ${listedKindsText}. Names may follow, as further arguments or after a slash, to list only those objects. As in kubectl, svc, ep and singular forms work too.`,
  },
  service: {
    commands: ['tap', 'status'],
    type: list(text('SERVICE')),
    positional: true,
    help: 'Name of a Service as NAMESPACE/NAME or NAMESPACE/NAME:PORT, or of a route. May be repeated.',
  },
  'status-all': {
    commands: ['status'],
    flag: 'all',
    type: onOff,
    help: 'Print every ServicePort. Without this flag, if there are more than 20, only those that are not ok are printed.',
  },
  failed: {
    commands: ['tap'],
    type: onOff,
    help: 'Only failed connections: no endpoint accepted, one side reset, or another failure. Connections that end normally never crowd these out, however many there are.',
  },
  client: {
    commands: ['tap'],
    type: list(block),
    defaultText: 'all',
    help: 'Only connections of this client, an IP address or a CIDR like 10.0.0.0/8. May be repeated.',
  },
  'max-rate': {
    commands: ['tap'],
    type: integer(1, mostPerSecond),
    default: '100',
    help: 'Maximum number of connections to print per second; a note on stderr gives the number left out.',
  },
  open: {
    commands: ['tap'],
    type: onOff,
    help: 'First print the connections that are already open, up to --max-rate.',
  },
  'tap-output': {
    commands: ['tap'],
    flag: 'output',
    short: 'o',
    type: oneOfOrNothing('json', ['json']),
    defaultText: 'a table',
    help: 'Print JSON, one object per line.',
  },
  dialled: {
    commands: ['explain'],
    type: list(text('ADDRESS')),
    positional: true,
    help: 'Address of the client, then the address and port it dials: 10.0.3.7 10.96.0.10:80. For a unix socket, only its name: unix:/run/db.sock.',
  },
  protocol: {
    commands: ['explain'],
    type: oneOf(['tcp', 'udp', 'sctp']),
    default: 'tcp',
    help: 'Protocol the client would use.',
  },
  'explain-output': {
    commands: ['explain'],
    flag: 'output',
    short: 'o',
    type: oneOfOrNothing('json|yaml', ['json', 'yaml']),
    defaultText: 'text',
    help: 'Print one JSON or YAML document.',
  },
  connection: {
    commands: ['close'],
    type: list(text('CONNECTION')),
    positional: true,
    help: 'Name of a connection, as listed by `usher get connections`. May be repeated.',
  },
  'command-line': {
    commands: ['upgrade'],
    type: list(text('ARGUMENT')),
    positional: true,
    help: 'After --, the command and flags to start the new Usher with. Default: those that the running one was started with.',
  },
  always: {
    commands: ['upgrade'],
    type: onOff,
    help: 'Also replace a running Usher of the same version and with the same command line.',
  },
  'upgrade-timeout': {
    commands: ['upgrade'],
    flag: 'timeout',
    type: duration('above zero'),
    default: '60s',
    help: 'How long the new Usher may take until it serves; after that it is ended, and the running one stays.',
  },
  'of-route': {
    commands: ['drain', 'undrain', 'weight', 'get'],
    flag: 'route',
    type: list(text('NAME')),
    defaultText: 'all',
    helpFor: {
      get: 'Only objects of this route, or of this Service as NAMESPACE/NAME or NAMESPACE/NAME:PORT. May be repeated.',
    },
    help: 'Only as an endpoint of this route, or of this Service as NAMESPACE/NAME or NAMESPACE/NAME:PORT. May be repeated.',
  },
  reset: {
    commands: ['pause', 'weight'],
    type: onOff,
    helpFor: {
      weight: 'Return to the configured weight, as without N.',
    },
    help: 'Also reset the open connections.',
  },
  close: {
    commands: ['drain'],
    type: oneOf(['none', 'idle', 'all']),
    default: 'none',
    help: 'Which open TCP connections of the endpoint to reset: none, those with no data for 5 s as each becomes idle, or all at once.',
  },
  'order-for': {
    commands: ['pause', 'drain'],
    flag: 'for',
    type: duration('or zero'),
    default: '0',
    defaultText: 'until it is revoked',
    help: 'End the order automatically after this time.',
  },
  'get-output': {
    commands: ['get'],
    flag: 'output',
    short: 'o',
    type: oneOfOrNothing('json|yaml|wide|name', ['json', 'yaml', 'wide', 'name']),
    defaultText: 'a table',
    help: 'Output format: one JSON or YAML document, a table with more columns, or names only.',
  },
  namespace: {
    commands: ['get', 'top'],
    short: 'n',
    type: anyText('NAME'),
    defaultText: 'all',
    help: 'Only Services in this namespace.',
  },
  'all-namespaces': {
    commands: ['get'],
    short: 'A',
    type: onOff,
    help: 'List all namespaces (the default).',
  },
  'top-sort': {
    commands: ['top'],
    flag: 'sort',
    type: oneOf(sortings),
    default: 'new',
    help: 'Sort order: most new connections per second, open connections, failures, retries or bytes per second, or by name.',
  },
  'top-once': {
    commands: ['top'],
    flag: 'once',
    type: onOff,
    help: 'Print one complete table after a second, and exit.',
  },
  'no-headers': {
    commands: ['get'],
    type: onOff,
    help: 'Omit the column headers.',
  },
  watch: {
    commands: ['get'],
    short: 'w',
    type: onOff,
    help: 'Keep running: query every second and print what changed. With -o json or yaml, each change is a document with type (ADDED, MODIFIED, DELETED) and object.',
  },
  'control-socket': {
    commands: ['run', 'sidecar', 'check', 'upgrade', ...orderCommands, ...queryCommands],
    type: socketPath,
    env: 'USHER_CONTROL_SOCKET',
    // Else a variable that was set for orders would have another Usher asked than the one given.
    envUnless: 'address',
    defaultText: '$USHER_CONTROL_SOCKET',
    helpFor: {
      ...Object.fromEntries(
        [...orderCommands, 'upgrade'].map(command => [command, controlSocketHelp]),
      ),
      ...Object.fromEntries(queryCommands.map(command => [command, asked])),
    },
    help: 'Path of a unix socket (mode 0600) on which to accept operator commands: `usher pause`, `usher drain`, `usher get` and others. Without it there is no control socket.',
  },
})
