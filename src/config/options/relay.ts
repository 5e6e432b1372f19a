import { duration } from '../duration.ts'
import { proxies, servers, type Row } from '../row.ts'
import { seconds } from '../seconds.ts'
import { integer, oneOf } from '../value.ts'

/** What carries connections and flows, and how it looks after their sockets. */
export const relay = {
  relay: {
    commands: proxies,
    group: 'Relay',
    type: oneOf(['auto', 'linux', 'portable']),
    default: 'auto',
    help: 'What carries the bytes. "linux": threads that call the kernel themselves, by far the faster one; needs Linux on x86-64 or arm64 and the optional package koffi. "portable": Node\'s own sockets. "auto": linux where it works, else portable; the log and `usher status` say which, and why.',
  },
  'relay-workers': {
    commands: servers,
    group: 'Relay',
    type: integer(0, 64),
    default: '0',
    help: 'Threads of the linux relay that carry connections, each of some 13 MB; 0 is one for each core, at most 4.',
  },
  'tcp-keepalive': {
    commands: proxies,
    group: 'TCP',
    type: seconds('or zero'),
    default: '15s',
    help: 'Ask after both ends of a TCP connection on which nothing moved for so long (SO_KEEPALIVE), in whole seconds; 0 does not ask.',
  },
  'tcp-keepalive-interval': {
    commands: servers,
    group: 'TCP',
    type: seconds('above zero'),
    default: '1s',
    help: 'Time between two such questions, in whole seconds. The portable relay has 1s always.',
  },
  'tcp-keepalive-probes': {
    commands: servers,
    group: 'TCP',
    type: integer(1, 127),
    default: '10',
    help: 'End a connection when so many of them in a row were not answered. The portable relay has 10 always.',
  },
  'tcp-user-timeout': {
    commands: servers,
    group: 'TCP',
    type: duration('or zero'),
    default: '0',
    help: 'End a TCP connection when data was not acknowledged, or its reader took none, for so long (TCP_USER_TIMEOUT); 0 leaves it to the kernel, which takes 15 minutes or more. The linux relay only.',
  },
} as const satisfies Readonly<Record<string, Row>>
