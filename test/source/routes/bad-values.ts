import { show } from '../../../src/util/printable.ts'
import { flagName } from '../../../src/source/options/option.ts'
import { routeOptions } from '../../../src/source/routes/route-fields.ts'

/** Of an option in a flag that is like none. */
export const unknownOption = `is unknown; give ${Object.keys(routeOptions)
  .map(flagName)
  .join(', ')
  .replace(/, ([a-z-]+)$/, ' or $1')}`

/** What would be right, as it is said. */
export const form = {
  address:
    'is not ADDRESS:PORT with a port from 1 to 65535, like 127.0.0.1:15432 or [::1]:15432',
  ip: 'is not an IP address; give one like 127.0.0.1, or 0.0.0.0 for all',
  group:
    'is a multicast or broadcast address; give one of this host, like 127.0.0.1, or 0.0.0.0 for all',
  listen:
    'is not tcp://ADDRESS:PORT, udp://ADDRESS:PORT or unix:/PATH, like tcp://127.0.0.1:15432',
  protocol:
    'is not tcp or udp; give tcp://ADDRESS:PORT, udp://ADDRESS:PORT or unix:/PATH',
  target:
    'is not HOST:PORT with a port from 1 to 65535, like 10.0.0.5:5432, [fd00::5]:5432, db.example:5432, srv:NAME for a name with SRV records, or unix:/PATH',
  word: 'has a word behind the address that is not weight=NUMBER; options are of the route',
  unix: 'is not unix: and a path, like unix:/run/db.sock, or unix:@db for an abstract one',
  shortPath:
    'is not the shortest way to write that path; leave out "//", "/./" and "/../"',
  longPath: 'is longer than the 102 bytes that the path of a socket may have',
  plainPath:
    'has a space, a zero or a question mark; give a path without, like unix:/run/db.sock, or unix:@db for an abstract one',
  socketMode: "is not three octal digits as a string, like '660'",
  socketOwner: "is not numbers of a user and a group as a string, like '999:999'",
  pathOnly: 'is for a route that listens at a path, like unix:/run/db.sock; leave it out',
  byAddress:
    'needs the address of a client, and clients of a unix socket have none; leave it out, or listen on tcp://',
  host: 'is neither an IP address nor a host name; give one like 10.0.0.5:5432 or db.example:5432',
  oneHost: 'is not the address of one host; give one like 10.0.0.5:5432',
  targets: 'is not a list of HOST:PORT, like [10.0.0.5:5432, 10.0.0.6:5432]',
  tiers: 'is not a list of lists of HOST:PORT, like [[10.0.0.5:5432], [10.1.0.5:5432]]',
  noTargets: 'is empty; give one HOST:PORT or more, like [10.0.0.5:5432]',
  affinity: 'is not a duration from 1s to 24h, like 3h',
  replay: 'is not a number of bytes from 0 to 64KiB, like 1k or 4KiB',
  hold: 'is not a duration from 0s to 24h, like 30s',
  answerWithin: 'is not a duration from 100ms to 60s, like 2s',
  entry:
    'is not an address or a CIDR, like 10.0.0.0/8 or fd00::1, or file: and an absolute path, like file:/etc/usher/blocked.txt',
  limit: 'is not a number of connections from 1 to 1000000, like ',
  rate: 'is not a number of connections a second from 1 to 1000000, like ',
  age: 'is not a duration from 1s to 168h, like ',
  accessLog: 'is not json or tcplog',
  accessLogTo:
    'is not stdout, file:/PATH or syslog:udp://ADDRESS:PORT, like file:/var/log/usher/db.log or syslog:udp://127.0.0.1:514',
  mostHeld: 'is not a number of clients from 1 to 65536, like 256',
  proxyProtocol: 'is not v1 or v2',
  balance: 'is not round-robin, least-connections, random or maglev',
  slowStart: 'is not a duration from 1s to 1h, like 30s',
  maxConnections: 'is not a number of connections from 1 to 1000000, like 80',
  queue: 'is not a duration from 0s to 1h, like 5s',
  mostQueued: 'is not a number of clients from 1 to 65536, like 1024',
  weight: 'has a weight that is not a number from 0 to 256, like 10.0.0.5:5432 weight=3',
  block: 'is not an address or a CIDR, like 10.0.0.0/8',
  onOff: 'is not true or false',
  name: 'is not a name: lower-case letters, digits and "-", at most 63',
  route:
    'is not a route, like {listen: tcp://127.0.0.1:15432, endpoints: [10.0.0.5:5432]}',
  routes:
    'is not a list of routes, like [{listen: tcp://127.0.0.1:15432, endpoints: [10.0.0.5:5432]}]',
  file: 'is not a file of routes; give routes: [{listen: tcp://127.0.0.1:15432, endpoints: [10.0.0.5:5432]}]',
  noListen: 'is missing; give one like tcp://127.0.0.1:15432',
  noEndpoints:
    'is missing; give a list like [10.0.0.5:5432, 10.0.0.6:5432], or tiers in its place',
  tcpOnly: 'is for TCP; leave it out, or listen on tcp://',
}

/** Of unix sockets. */
const unixes: readonly (readonly [text: string, message: string])[] = [
  ['unix:', `"unix:" ${form.unix}`],
  ['unix:db', `"unix:db" ${form.unix}`],
  ['unix:run/db', `"unix:run/db" ${form.unix}`],
  ['unix:@', `"unix:@" ${form.unix}`],
  ['unix:/', `"unix:/" ${form.unix}`],
  ['unix:/run/', `"unix:/run/" ${form.unix}`],
  ['unix://run/db', `"unix://run/db" ${form.shortPath}`],
  ['unix:////run/db', `"unix:////run/db" ${form.shortPath}`],
  ['unix:/run/./db', `"unix:/run/./db" ${form.shortPath}`],
  ['unix:/run/../db', `"unix:/run/../db" ${form.shortPath}`],
  ['unix:/run/..', `"unix:/run/.." ${form.shortPath}`],
  ['unix:/run/a b', `"unix:/run/a b" ${form.plainPath}`],
  [`unix:/${'d'.repeat(102)}`, `${show(`unix:/${'d'.repeat(102)}`)} ${form.longPath}`],
]

/** Listen addresses, each with what is said of it. */
export const listens: readonly (readonly [text: string, message: string])[] = [
  ['', `"" ${form.listen}`],
  ['127.0.0.1:1', `"127.0.0.1:1" ${form.listen}`],
  ['tcp:127.0.0.1:1', `"tcp:127.0.0.1:1" ${form.listen}`],
  ['://127.0.0.1:1', `"://127.0.0.1:1" ${form.listen}`],
  ['t cp://127.0.0.1:1', `"t cp://127.0.0.1:1" ${form.listen}`],
  ['tpc://127.0.0.1:1', `protocol "tpc" ${form.protocol}`],
  ['sctp://127.0.0.1:1', `protocol "sctp" ${form.protocol}`],
  ['http://127.0.0.1:1', `protocol "http" ${form.protocol}`],
  ...unixes,
  ['tcp://', `address "" ${form.address}`],
  ['tcp://127.0.0.1', `address "127.0.0.1" ${form.address}`],
  ['tcp://127.0.0.1:', `address "127.0.0.1:" ${form.address}`],
  ['tcp://127.0.0.1:0', `address "127.0.0.1:0" ${form.address}`],
  ['tcp://127.0.0.1:65536', `address "127.0.0.1:65536" ${form.address}`],
  ['tcp://127.0.0.1:-1', `address "127.0.0.1:-1" ${form.address}`],
  ['tcp://127.0.0.1:5432x', `address "127.0.0.1:5432x" ${form.address}`],
  ['tcp://127.0.0.1:1-9', `address "127.0.0.1:1-9" ${form.address}`],
  ['tcp://127.0.0.1:1/', `address "127.0.0.1:1/" ${form.address}`],
  ['tcp://:5432', `address ":5432" ${form.address}`],
  ['tcp://::1:53', 'address "::1:53" has IPv6 without brackets; write [::1]:53'],
  ['tcp://[::1]', `address "[::1]" ${form.address}`],
  ['tcp://[::1', `address "[::1" ${form.address}`],
  ['tcp://*:53', `address "*:53" ${form.ip}`],
  ['tcp://localhost:53', `address "localhost:53" ${form.ip}`],
  ['tcp://256.0.0.1:53', `address "256.0.0.1:53" ${form.ip}`],
  ['tcp://127.1:53', `address "127.1:53" ${form.ip}`],
  ['tcp://127.0.0.01:53', `address "127.0.0.01:53" ${form.ip}`],
  ['tcp://[fe80::1%lo]:53', `address "[fe80::1%lo]:53" ${form.ip}`],
  ['tcp://[::g]:53', `address "[::g]:53" ${form.ip}`],
  ['tcp://224.0.0.1:53', `address "224.0.0.1:53" ${form.group}`],
  ['tcp://255.255.255.255:53', `address "255.255.255.255:53" ${form.group}`],
  ['tcp://[ff02::1]:53', `address "[ff02::1]:53" ${form.group}`],
]

/** Endpoints, likewise. */
export const targets: readonly (readonly [text: string, message: string])[] = [
  ['', `"" ${form.target}`],
  ['10.0.0.5', `"10.0.0.5" ${form.target}`],
  ['db', `"db" ${form.target}`],
  ['10.0.0.5:1 weight 3', `"10.0.0.5:1 weight 3" ${form.word}`],
  ['10.0.0.5:1 backup', `"10.0.0.5:1 backup" ${form.word}`],
  [':5432', `":5432" ${form.target}`],
  ['db:', `"db:" ${form.target}`],
  ['db:0', `"db:0" ${form.target}`],
  ['db:65536', `"db:65536" ${form.target}`],
  ['db:pg', `"db:pg" ${form.target}`],
  ['db:-1', `"db:-1" ${form.target}`],
  ['db:1:2', `"db:1:2" ${form.target}`],
  ['tcp://db:1', `"tcp://db:1" ${form.target}`],
  ['fd00::5:5432', '"fd00::5:5432" has IPv6 without brackets; write [fd00::5]:5432'],
  ['fd00::5', '"fd00::5" has IPv6 without brackets; write [fd00::5]:PORT'],
  ['[fd00::5]', `"[fd00::5]" ${form.target}`],
  ['[]:1', `"[]:1" ${form.target}`],
  ['10.0.0.256:1', `"10.0.0.256:1" ${form.host}`],
  ['127.1:1', `"127.1:1" ${form.host}`],
  ['0x7f.1:1', `"0x7f.1:1" ${form.host}`],
  ['-db:1', `"-db:1" ${form.host}`],
  ['d b:1', `"d b:1" ${form.host}`],
  ['db..x:1', `"db..x:1" ${form.host}`],
  [`${'d'.repeat(64)}:1`, `"${'d'.repeat(64)}:1" ${form.host}`],
  ['dätabase:1', String.raw`"d\u00e4tabase:1" ${form.host}`],
  ['0.0.0.0:1', `"0.0.0.0:1" ${form.oneHost}`],
  ['[::]:1', `"[::]:1" ${form.oneHost}`],
  ['239.1.1.1:1', `"239.1.1.1:1" ${form.oneHost}`],
  ['[ff02::1]:1', `"[ff02::1]:1" ${form.oneHost}`],
  ...unixes,
]

type OptionValue = readonly [option: string, flag: string, value: string, message: string]

/** As it is said: nothing but ASCII. */
const shown = (value: string): string =>
  JSON.stringify(value).replaceAll('с', String.raw`\u0441`)

const option =
  (name: string, flag: string, right: string) =>
  (value: string): OptionValue => [name, flag, value, `${shown(value)} ${right}`]

/** Options whose text is wrong, in a file and in a flag. */
export const options: readonly OptionValue[] = [
  ...[
    '',
    'soon',
    '0',
    '0s',
    '999ms',
    '25h',
    '24h1s',
    '-3h',
    '3',
    '3 h',
    '3d',
    '1h30',
  ].map(option('affinity', 'affinity', form.affinity)),
  ...[
    '',
    '65537',
    '65k',
    '64KB',
    '64kb',
    '1m',
    '1MiB',
    '-1',
    '1.5k',
    '1 k',
    'k',
    '0x10',
  ].map(option('replay', 'replay', form.replay)),
  ...['', 'soon', '30', '-1s', '25h', '30 s', '1e9s', '30с', `${'9'.repeat(30)}s`].map(
    option('hold', 'hold', form.hold),
  ),
  ...['', 'soon', '2', '0s', '99ms', '61s', '-2s', '2 s'].map(
    option('answerWithin', 'answer-within', form.answerWithin),
  ),
  ...['', 'soon', '30', '0s', '999ms', '169h', '-1s'].flatMap(text => [
    option('idleTimeout', 'idle-timeout', `${form.age}1h`)(text),
    option('lifetime', 'lifetime', `${form.age}24h`)(text),
  ]),
  ...['', 'x', '1.5', '-1', '10/s'].flatMap(text => [
    option('maxRouteConnections', 'max-route-connections', `${form.limit}1000`)(text),
    option('maxRouteRate', 'max-route-rate', `${form.rate}200`)(text),
    option('maxClientConnections', 'max-client-connections', `${form.limit}20`)(text),
    option('maxClientRate', 'max-client-rate', `${form.rate}10`)(text),
  ]),
  ...['', 'x', '1.5', '-1', '1_000', '0x1G'].map(
    option('mostHeld', 'most-held', form.mostHeld),
  ),
  ...['', 'v3', 'V1', '1', 'on', 'v1,v2'].map(
    option('proxyProtocol', 'proxy-protocol', form.proxyProtocol),
  ),
  ...['', '6', '6600', '0o660', 'rw-rw----', '890'].map(
    option('socketMode', 'socket-mode', form.socketMode),
  ),
  ...['', 'postgres', '-1', '1:2:3', '1.5', '99999999999'].map(
    option('socketOwner', 'socket-owner', form.socketOwner),
  ),
  ...['', 'roundrobin', 'leastconn', 'Random', 'least_connections'].map(
    option('balance', 'balance', form.balance),
  ),
  ...['', '30', '0s', '999ms', '61m', '-30s'].map(
    option('slowStart', 'slow-start', form.slowStart),
  ),
  ...['', 'x', '-1', '8e1', '80.5'].map(
    option('maxConnections', 'max-connections', form.maxConnections),
  ),
  ...['', '5', '61m', '-5s', 'none'].map(option('queue', 'queue', form.queue)),
  ...['', 'many', '-1'].map(option('mostQueued', 'most-queued', form.mostQueued)),
  ...['', 'yes', 'no', 'On', 'OFF', '0', '1'].map(
    option('retryEarlyClose', 'retry-early-close', form.onOff),
  ),
  ...['', 'JSON', 'on', 'httplog'].map(option('accessLog', 'access-log', form.accessLog)),
  ...[
    '',
    'Stdout',
    'stderr',
    '/var/log/db.log',
    'file:db.log',
    'file:',
    'file:/var/log/',
    'file:///',
    'syslog:127.0.0.1:514',
    'syslog:udp://127.0.0.1',
    'syslog:udp://127.0.0.1:0',
    'syslog:udp://0.0.0.0:514',
    'syslog:udp://239.1.1.1:514',
    'syslog:udp://loghost:514',
    'syslog:tcp://127.0.0.1:514',
    'syslog:unix:/dev/log',
  ].map(option('accessLogTo', 'access-log-to', form.accessLogTo)),
  ...['', 'Db', 'a_b', 'a.b', '-a', 'a-', 'a b', 'd'.repeat(64)].map(
    option('name', 'name', form.name),
  ),
]

/** Entries of lists of clients. */
export const badEntries = [
  '',
  '10.0.0.0/33',
  '10.0.0',
  '010.0.0.1',
  'fd00::/129',
  'fe80::1%eth0',
  'db.example',
  'file:',
  'file:/',
  'file:blocked.txt',
  'file:./blocked.txt',
  'File:/etc/blocked.txt',
]
