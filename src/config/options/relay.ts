import { group, proxies, servers } from '../row.ts'
import { oneOf } from '../types/basic.ts'
import { duration, durations, seconds, bytes, integer } from '../types/quantities.ts'

/** What carries connections and flows, and how it looks after their sockets. */
export const relay = {
  ...group('Relay', proxies, {
    relay: {
      type: oneOf(['auto', 'linux', 'portable']),
      default: 'auto',
      help: 'Relay implementation. "linux": threads that make system calls directly, much faster; needs Linux on x86-64 or arm64 and the optional package koffi. "portable": Node\'s own sockets. "auto": linux where it works, else portable; the log and `usher status` say which one and why.',
    },
    'relay-workers': {
      commands: servers,
      type: integer(0, 64),
      default: '0',
      // One application needs no more, and only one worker's turns are exact.
      defaultFor: { sidecar: '1' },
      help: 'Worker threads of the linux relay, about 13 MB each; 0 means one per core, at most 4.',
    },
  }),
  ...group('TCP', servers, {
    'tcp-keepalive': {
      commands: proxies,
      type: seconds('or zero'),
      default: '15s',
      help: 'Send keep-alive probes to both ends of a TCP connection that has been idle for this long (SO_KEEPALIVE), in whole seconds; 0 disables them.',
    },
    'tcp-keepalive-interval': {
      type: seconds('above zero'),
      default: '1s',
      help: 'Interval between keep-alive probes, in whole seconds. Always 1s in the portable relay.',
    },
    'tcp-keepalive-probes': {
      type: integer(1, 127),
      default: '10',
      help: 'End a connection after this many unanswered keep-alive probes in a row. Always 10 in the portable relay.',
    },
    'tcp-user-timeout': {
      type: duration('or zero'),
      default: '0',
      help: "End a TCP connection if sent data stays unacknowledged, or its peer reads nothing, for this long (TCP_USER_TIMEOUT); 0 keeps the kernel's limit of 15 minutes or more. Only in the linux relay.",
    },
  }),
} as const

/** How connections and flows are carried. */
export const traffic = {
  ...group('TCP', proxies, {
    'dial-ladder': {
      type: durations,
      default: '250ms,500ms,1s,2s',
      help: 'How long to wait for each endpoint to accept before another is tried in parallel. The sum is the longest time a client waits. 1 to 16 steps.',
    },
    'half-close-timeout': {
      type: duration('above zero'),
      default: '60s',
      help: 'End a half-closed connection (one side has sent its FIN) after this long without data.',
    },
    'tcp-idle-timeout': {
      type: duration('or zero'),
      default: '0',
      help: 'End any connection after this long without data; 0 means never.',
    },
    'connection-buffer': {
      type: bytes('4KiB', '16MiB'),
      default: '192KiB',
      help: 'Maximum number of bytes buffered per direction of a connection while its reader is slow.',
    },
  }),
  ...group('UDP', proxies, {
    'udp-reply-timeout': {
      type: duration('above zero'),
      default: '5s',
      help: 'End a UDP flow that has had no reply yet after this long without a datagram.',
    },
    'udp-timeout': {
      type: duration('above zero'),
      default: '30s',
      help: 'End a UDP flow that has had a reply after this long without a datagram.',
    },
    'udp-max-flows-per-port': {
      type: integer(1, 1_000_000),
      default: '16384',
      help: 'Maximum number of UDP flows per Service port; beyond it the longest-idle flow is dropped.',
    },
    'udp-max-flows': {
      type: integer(1, 10_000_000),
      default: '65536',
      help: 'Maximum number of UDP flows of all Service ports together.',
    },
  }),
} as const
