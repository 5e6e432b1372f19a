import { group, node, proxies } from '../row.ts'
import { oneOf } from '../types/basic.ts'
import { duration } from '../types/durations.ts'
import { int32, integer } from '../types/numbers.ts'

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
    help: 'How often to make sure that all is as it should be, even when nothing changed. Wins over --iptables-sync-period and --ipvs-sync-period.',
  },
  'min-sync-period': {
    commands: node,
    type: duration('or zero'),
    default: '0',
    help: 'Shortest time between two rounds of changes; more gathers more changes in one. At most --sync-period. Wins over --iptables-min-sync-period (1s, since a round of iptables-restore costs something) and --ipvs-min-sync-period.',
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
