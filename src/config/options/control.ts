import { orList } from '../../util/suggest.ts'
import { group, node } from '../row.ts'
import { anyText, list, oneOf, oneOfOrNothing, onOff, text } from '../types/basic.ts'
import { block, socketPath } from '../types/addresses.ts'
import { duration, integer } from '../types/quantities.ts'

/** Commands that give a running Usher an order, and those that ask it. */
const orderCommands = ['pause', 'resume', 'drain', 'undrain', 'weight', 'close'] as const
const queryCommands = ['get', 'top', 'tap', 'explain'] as const

const controlSocketHelp =
  'The control socket of the Usher to command: the path given to it as --control-socket.'

const asked =
  'The control socket of the Usher to query: the path given to it as --control-socket. Without this flag, the metrics address is queried.'

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
    help: 'Name of a route, or of a Service as NAMESPACE/NAME or NAMESPACE/NAME:PORT. May be given several times: when one is wrong, nothing is done for any.',
  },
  endpoint: {
    commands: ['drain', 'undrain'],
    type: list(text('ENDPOINT')),
    positional: true,
    help: 'Address and port of an endpoint, like 10.0.0.5:5432 or [2001:db8::5]:5432. May be given several times: when one is wrong, nothing is done for any.',
  },
  'endpoint-weight': {
    commands: ['weight'],
    flag: 'endpoint',
    type: list(text('ENDPOINT')),
    positional: true,
    help: 'Address and port of an endpoint, like 10.0.0.5:5432 or [2001:db8::5]:5432; after it, its weight.',
  },
  kind: {
    commands: ['get'],
    // Also by other names, which none has to be shown.
    type: list({ ...text('KIND'), choices: listedKinds }),
    positional: true,
    help: `What to list: ${listedKindsText}. Names may follow, or stand after a slash: then only objects with one of these names are listed. As in kubectl, svc, ep and the singular forms work too.`,
  },
  service: {
    commands: ['tap', 'status'],
    type: list(text('SERVICE')),
    positional: true,
    help: 'Name of a Service as NAMESPACE/NAME or NAMESPACE/NAME:PORT, or of a route. May be given several times.',
  },
  'status-all': {
    commands: ['status'],
    flag: 'all',
    type: onOff,
    help: 'Print each ServicePort. Without this flag, when there are more than 20, only those that are not ok are printed.',
  },
  failed: {
    commands: ['tap'],
    type: onOff,
    help: 'Only connections that did not end in order: no endpoint accepted, one side reset it, and other failures. Many connections that end in order do not crowd these out.',
  },
  client: {
    commands: ['tap'],
    type: list(block),
    defaultText: 'all',
    help: 'Only connections of this client, an IP address or a block like 10.0.0.0/8. May be given several times.',
  },
  'max-rate': {
    commands: ['tap'],
    type: integer(1, mostPerSecond),
    default: '100',
    help: 'The most connections that are printed a second; a note on stderr says how many more there were.',
  },
  open: {
    commands: ['tap'],
    type: onOff,
    help: 'First print the connections that are open now, as many as --max-rate says.',
  },
  'tap-output': {
    commands: ['tap'],
    flag: 'output',
    short: 'o',
    type: oneOfOrNothing('json', ['json']),
    defaultText: 'a table',
    help: 'As JSON, an object a line.',
  },
  dialled: {
    commands: ['explain'],
    type: list(text('ADDRESS')),
    positional: true,
    help: 'Address of the client, and address and port that it dials: 10.0.3.7 10.96.0.10:80. Of a unix socket its name alone: unix:/run/db.sock.',
  },
  protocol: {
    commands: ['explain'],
    type: oneOf(['tcp', 'udp', 'sctp']),
    default: 'tcp',
    help: 'Protocol that the client would use.',
  },
  'explain-output': {
    commands: ['explain'],
    flag: 'output',
    short: 'o',
    type: oneOfOrNothing('json|yaml', ['json', 'yaml']),
    defaultText: 'text',
    help: 'As one document of JSON or YAML.',
  },
  connection: {
    commands: ['close'],
    type: list(text('CONNECTION')),
    positional: true,
    help: 'Name of a connection, as `usher get connections` has it. May be given several times.',
  },
  'of-route': {
    commands: ['drain', 'undrain', 'weight', 'get'],
    flag: 'route',
    type: list(text('NAME')),
    defaultText: 'all',
    helpFor: {
      get: 'Only what is of this route, or Service as NAMESPACE/NAME or NAMESPACE/NAME:PORT. May be given several times.',
    },
    help: 'Only as an endpoint of this route, or Service as NAMESPACE/NAME or NAMESPACE/NAME:PORT. May be given several times.',
  },
  reset: {
    commands: ['pause', 'weight'],
    type: onOff,
    helpFor: {
      weight: 'Return to the weight from the source, as without N.',
    },
    help: 'Reset the connections that are open, too.',
  },
  close: {
    commands: ['drain'],
    type: oneOf(['none', 'idle', 'all']),
    default: 'none',
    help: 'Which of its open TCP connections are reset: none, each one on which nothing has moved for 5 s, or all at once.',
  },
  'order-for': {
    commands: ['pause', 'drain'],
    flag: 'for',
    type: duration('or zero'),
    default: '0',
    defaultText: 'until it is taken back',
    help: 'End the order automatically after so long.',
  },
  'get-output': {
    commands: ['get'],
    flag: 'output',
    short: 'o',
    type: oneOfOrNothing('json|yaml|wide|name', ['json', 'yaml', 'wide', 'name']),
    defaultText: 'a table',
    help: 'How to print it: as one document of JSON or YAML, as a table with more columns, or names alone.',
  },
  namespace: {
    commands: ['get', 'top'],
    short: 'n',
    type: anyText('NAME'),
    defaultText: 'all',
    help: 'Only what is of Services in this namespace.',
  },
  'all-namespaces': {
    commands: ['get'],
    short: 'A',
    type: onOff,
    help: 'List all namespaces, which is the default.',
  },
  'top-sort': {
    commands: ['top'],
    flag: 'sort',
    type: oneOf(sortings),
    default: 'new',
    help: 'What comes first: most new connections a second, connections, failures, retries or bytes a second, or by name.',
  },
  'top-once': {
    commands: ['top'],
    flag: 'once',
    type: onOff,
    help: 'Print one table of all, after a second, and end.',
  },
  'no-headers': {
    commands: ['get'],
    type: onOff,
    help: 'Without the names of the columns.',
  },
  watch: {
    commands: ['get'],
    short: 'w',
    type: onOff,
    help: 'Go on: ask again each second, and print what has changed. With -o json and yaml each change is a document with type (ADDED, MODIFIED, DELETED) and object.',
  },
  'control-socket': {
    commands: ['run', 'sidecar', 'check', ...orderCommands, ...queryCommands],
    type: socketPath,
    env: 'USHER_CONTROL_SOCKET',
    defaultText: '$USHER_CONTROL_SOCKET',
    helpFor: {
      ...Object.fromEntries(orderCommands.map(command => [command, controlSocketHelp])),
      ...Object.fromEntries(queryCommands.map(command => [command, asked])),
    },
    help: 'Path of a unix socket to listen on, with mode 0600, for the orders of operators: `usher pause`, `usher drain`, `usher get` and others. Without it there is none.',
  },
})
