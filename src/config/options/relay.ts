import { group, proxies, servers } from '../row.ts'
import { oneOf } from '../types/basic.ts'
import { duration, durations, seconds, bytes, integer } from '../types/quantities.ts'

/** What carries connections and flows, and how it looks after their sockets. */
export const relay = {
  ...group('Relay', proxies, {
    relay: {
      type: oneOf(['auto', 'linux', 'portable']),
      default: 'auto',
      help: 'What carries the bytes. "linux": threads that call the kernel themselves, by far the faster one; needs Linux on x86-64 or arm64 and the optional package koffi. "portable": Node\'s own sockets. "auto": linux where it works, else portable; the log and `usher status` say which, and why.',
    },
    'relay-workers': {
      commands: servers,
      type: integer(0, 64),
      default: '0',
      // One application needs no more, and only one worker's turns are exact.
      defaultFor: { sidecar: '1' },
      help: 'Threads of the linux relay that carry connections, each of some 13 MB; 0 is one for each core, at most 4.',
    },
  }),
  ...group('TCP', servers, {
    'tcp-keepalive': {
      commands: proxies,
      type: seconds('or zero'),
      default: '15s',
      help: 'Send keep-alive probes to both ends of a TCP connection that was idle for so long (SO_KEEPALIVE), in whole seconds; 0 sends none.',
    },
    'tcp-keepalive-interval': {
      type: seconds('above zero'),
      default: '1s',
      help: 'Time between two keep-alive probes, in whole seconds. The portable relay has 1s always.',
    },
    'tcp-keepalive-probes': {
      type: integer(1, 127),
      default: '10',
      help: 'End a connection when so many keep-alive probes in a row were not answered. The portable relay has 10 always.',
    },
    'tcp-user-timeout': {
      type: duration('or zero'),
      default: '0',
      help: 'End a TCP connection when data was not acknowledged, or its reader took none, for so long (TCP_USER_TIMEOUT); 0 leaves it to the kernel, which takes 15 minutes or more. The linux relay only.',
    },
  }),
} as const

/** How connections and flows are carried. */
export const traffic = {
  ...group('TCP', proxies, {
    'dial-ladder': {
      type: durations,
      default: '250ms,500ms,1s,2s',
      help: 'How long to wait for each endpoint to accept before another is tried beside it; together, how long a client waits at most. 1 to 16 steps.',
    },
    'half-close-timeout': {
      type: duration('above zero'),
      default: '60s',
      help: 'End a half-closed connection, in which one side has sent its end (FIN), when no byte moved for so long.',
    },
    'tcp-idle-timeout': {
      type: duration('or zero'),
      default: '0',
      help: 'End any connection on which no byte moved for so long; 0 is never.',
    },
    'connection-buffer': {
      type: bytes('4KiB', '16MiB'),
      default: '192KiB',
      help: 'Bytes that one direction of one connection may hold in memory while its reader is slow.',
    },
  }),
  ...group('UDP', proxies, {
    'udp-reply-timeout': {
      type: duration('above zero'),
      default: '5s',
      help: 'Forget a UDP client whose endpoint has not replied yet when nothing came for so long.',
    },
    'udp-timeout': {
      type: duration('above zero'),
      default: '30s',
      help: 'Forget a UDP client whose endpoint has replied when nothing moved for so long.',
    },
    'udp-max-flows-per-port': {
      type: integer(1, 1_000_000),
      default: '16384',
      help: 'UDP clients that are remembered for one Service port; beyond that number the one that was idle longest is forgotten.',
    },
    'udp-max-flows': {
      type: integer(1, 10_000_000),
      default: '65536',
      help: 'UDP clients that all Service ports together remember.',
    },
  }),
} as const
