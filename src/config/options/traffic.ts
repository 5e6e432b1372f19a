import { bytes } from '../bytes.ts'
import { duration, durations } from '../duration.ts'
import { proxies, type Row } from '../row.ts'
import { integer } from '../value.ts'

/** How connections and flows are carried. */
export const traffic = {
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
} as const satisfies Readonly<Record<string, Row>>
