import { duration } from '../duration.ts'
import { node, proxies, type Row } from '../row.ts'
import { integer } from '../value.ts'

/** How fast, and how much at most. */
export const pace = {
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
    commands: node,
    group: 'Pace and limits',
    type: duration('above zero'),
    default: '30s',
    help: 'How often to make sure that all is as it should be, even when nothing changed. Wins over --iptables-sync-period and --ipvs-sync-period.',
  },
  'min-sync-period': {
    commands: node,
    group: 'Pace and limits',
    type: duration('or zero'),
    default: '0',
    help: 'Shortest time between two rounds of changes; more gathers more changes in one. At most --sync-period. Wins over --iptables-min-sync-period (1s, since a round of iptables-restore costs something) and --ipvs-min-sync-period.',
  },
} as const satisfies Readonly<Record<string, Row>>
