import { int32 } from '../numbers.ts'
import { node, proxies, type Row } from '../row.ts'
import { oneOf } from '../value.ts'

/** What is logged, and how. */
export const logging = {
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
  v: {
    commands: node,
    group: 'Log',
    type: int32(0),
    default: '0',
    short: 'v',
    field: 'logging.verbosity',
    beatsFile: true,
    help: 'How much to log, as kube-proxy counts: 4 and 5 are "debug", 6 and more "trace". --log-level wins.',
  },
  'logging-format': {
    commands: node,
    group: 'Log',
    type: oneOf(['text', 'json']),
    default: 'text',
    field: 'logging.format',
    beatsFile: true,
    help: '"json" is --log-format json, "text" is --log-format pretty; not given it is neither. --log-format wins.',
  },
} as const satisfies Readonly<Record<string, Row>>
