import * as v from 'valibot'
import { accessLogFormats, readLogDestination } from '../../model/access-log.ts'
import { hasTraffic, type TrafficOptions } from '../../model/traffic.ts'
import { type AddressRanges, rangesOf, readBlock } from '../../util/address-ranges.ts'
import {
  sound,
  isNot,
  checkedText,
  durationText,
  msOf,
  oneOf,
} from '../../util/schema.ts'
import { isDnsLabel, isDnsSubdomain, list } from '../decode/fields.ts'
import { endpointOptions } from '../options/endpoint-options.ts'
import {
  described,
  type Option,
  option,
  type Options,
  schemasOf,
  shown,
} from '../options/option.ts'
import { entryForm, readEntry } from './list-files.ts'
import { plainName } from './dns/dns-message.ts'
import { listenForm, readListen, readTarget, targetForm } from './route-address.ts'

// The one definition of a route: the flag and the file are read by it, and the JSON Schema
// and the table in docs/routes.md are made from it. Only checks, as in decode/fields.ts.

/** A text that a reader may find a fault in. `pattern`: as much of that as an editor knows. */
const readable = (
  form: string,
  read: (given: string) => unknown,
  pattern: string,
  example: string,
) =>
  v.pipe(
    sound(form, given => {
      const found = read(given)
      return typeof found === 'string' ? found : ''
    }),
    v.metadata({ pattern }),
    v.examples([example]),
  )

const target = readable(
  targetForm,
  readTarget,
  String.raw`^((\[[^\]]+\]|[^:\[\]]+):\d{1,5}|unix:[/@][^?\s]+)( +weight=\d{1,3})?$`,
  '10.0.0.5:5432',
)

const targets = v.pipe(
  list(target, 'a list of HOST:PORT, like [10.0.0.5:5432, 10.0.0.6:5432]'),
  v.minLength(1, 'is empty; give one HOST:PORT or more, like [10.0.0.5:5432]'),
)

const entryPattern = String.raw`^(file:/.+|[0-9.]+(/\d{1,2})?|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*(/\d{1,3})?)$`

const rangesText = (lists: readonly AddressRanges[] | undefined): string | undefined => {
  if (lists === undefined) return undefined
  const count = lists.reduce(
    (sum, { ipv4, ipv6 }) => sum + ipv4.length / 2 + ipv6.length / 8,
    0,
  )
  return `${count} ${count === 1 ? 'range' : 'ranges'}`
}

/** A list of clients, of which files may be a part. */
const clients = (
  name: 'allow' | 'deny' | 'probers',
  example: string,
  help: string,
  columns: Pick<Option, 'protocol'> = {},
) =>
  option(
    v.pipe(
      list(
        readable(entryForm, readEntry, entryPattern, example),
        'a list of addresses and CIDRs, like [10.0.0.0/8]',
      ),
      v.minLength(1, 'is empty; give one address or more, like [10.0.0.0/8]'),
      v.examples([[example]]),
    ),
    help,
    {
      ...columns,
      isByAddress: true,
      decode: given => ({ lists: { [name]: given } }),
      show: (_, options) => rangesText(options.clients?.[name]),
    },
  )

/** Who may be a client. */
const listOptions = {
  allow: clients(
    'allow',
    '10.0.0.0/8',
    'Only these clients: addresses, CIDRs, and files that list them (`file:/etc/usher/clients.txt`). All clients by default.',
  ),
  deny: clients(
    'deny',
    '192.0.2.0/24',
    'Refuse these clients; takes precedence over `allow`.',
  ),
  probers: clients(
    'probers',
    '10.0.0.2',
    "TCP only. Connections from these addresses, such as load balancers' health probes, are accepted and closed: nothing is dialled, counted or logged (HAProxy: `monitor-net`).",
    { protocol: 'TCP' },
  ),
}

const block = checkedText(
  given => readBlock(given) !== undefined,
  'an address or a CIDR, like 10.0.0.0/8',
  String.raw`^([0-9.]+(/\d{1,2})?|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*(/\d{1,3})?)$`,
  '10.0.0.0/8',
)

/** A line for each connection. */
const accessLogOptions = {
  accessLog: option(
    oneOf(accessLogFormats),
    "TCP only; off by default. One log line per closed connection, as JSON or in HAProxy's `option tcplog` format. See [access log](operating.md#access-log).",
    { example: 'json', protocol: 'TCP', at: ['accessLog', 'format'] },
  ),
  accessLogTo: option(
    checkedText(
      given => readLogDestination(given) !== undefined,
      'stdout, file:/PATH or syslog:udp://ADDRESS:PORT, like file:/var/log/usher/db.log or syslog:udp://127.0.0.1:514',
      String.raw`^(stdout|file:(/|[A-Za-z]:[/\\]).*[^/]|syslog:udp://.+:\d{1,5})$`,
      'file:/var/log/usher/db.log',
    ),
    'Destination of the access log: `stdout`, which is the default, `file:/PATH`, or `syslog:udp://ADDRESS:PORT`.',
    { protocol: 'TCP', needs: 'accessLog', at: ['accessLog', 'to'] },
  ),
}

/** The numbers of a user and a group, or one of them. */
export const socketOwner = /^(\d{1,9})?(?::(\d{1,9}))?$/

/** Who may connect to a route that listens at a path; its address carries them. */
export const socketOptions = {
  socketMode: option(
    checkedText(
      given => /^0?[0-7]{3}$/.test(given),
      "three octal digits as a string, like '660'",
      '^0?[0-7]{3}$',
      '600',
    ),
    'For a route that listens at a path: the mode of the socket file, in octal digits. Write permission allows connecting. 660 by default.',
  ),
  socketOwner: option(
    checkedText(
      given => given !== '' && socketOwner.test(given),
      "numbers of a user and a group as a string, like '999:999'",
      String.raw`^(\d{1,9})?(:\d{1,9})?$`,
      '999:999',
    ),
    'For a route that listens at a path: numeric user and group of the socket file (`id postgres` prints them), or one of them: `999`, `:999`. Those of Usher by default; another user needs root.',
  ),
}

/** Beside where a route listens and goes: in a file, and after the `?` of a flag. */
export const routeOptions = {
  name: option(
    checkedText(
      isDnsLabel,
      'a name: lower-case letters, digits and "-", at most 63',
      '^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$',
      'db',
    ),
    'Name in the log, metrics and `usher status`; must be unique. By default it is derived from the listen address: `tcp-127-0-0-1-15432`.',
  ),
  affinity: option(
    // The same as a Service's `timeoutSeconds` has.
    durationText('1s', '24h', '3h'),
    'Keeps a client at one endpoint until it has been away for this long, 1s to 24h. No affinity by default.',
    { isByAddress: true, decode: given => ({ affinityMs: msOf(given) }) },
  ),
  ...endpointOptions,
  ...listOptions,
  acceptProxy: option(
    v.pipe(
      list(block, 'a list of addresses and CIDRs, like [10.0.0.0/8]'),
      v.minLength(1, 'is empty; give one address or more, like [10.0.0.0/8]'),
    ),
    'TCP only. Addresses and CIDRs of proxies in front of Usher. Their connections begin with a PROXY protocol header, v1 or v2, that names the client.',
    {
      example: ['10.0.0.0/8'],
      protocol: 'TCP',
      isByAddress: true,
      at: ['acceptProxy'],
      read: rangesOf,
      show: (_, { acceptProxy }) => rangesText(acceptProxy && [acceptProxy]),
    },
  ),
  onGone: option(
    oneOf(['keep', 'reset']),
    'TCP only. What happens to connections of an address that is no longer in the DNS answer or the file: they are kept, which is the default, or reset.',
    { example: 'reset', protocol: 'TCP', decode: onGone => ({ onGone }) },
  ),
  ...accessLogOptions,
  ...socketOptions,
}

const missing = (issue: v.ObjectIssue, right: Readonly<Record<string, string>>) => {
  const [name] = issue.path?.map(({ key }) => String(key)).slice(-1) ?? []
  return `is missing; give ${right[name ?? ''] ?? ''}`
}

/** An object whose keys that are not there are named with what would be `right`. */
const mapping = <const E extends v.ObjectEntries>(
  entries: E,
  form: string,
  right: Readonly<Record<string, string>>,
) =>
  v.object(entries, (issue: v.ObjectIssue) =>
    issue.expected === 'Object' ? isNot(form)(issue) : missing(issue, right),
  )

const listenPlace = readable(
  listenForm,
  readListen,
  String.raw`^(([tT][cC][pP]|[uU][dD][pP])://.+:\d{1,5}|unix:[/@][^?\s]+)$`,
  'tcp://127.0.0.1:15432',
)

const serverName = checkedText(
  given => isDnsSubdomain(plainName(given).replace(/^\*\./, '')),
  'a host name, like db.example, or all below one, like *.apps.example',
  String.raw`^(\*\.)?[a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?\.?$`,
  'db.example',
)

const alpnProtocol = checkedText(
  given => given.length >= 1 && given.length <= 255,
  'a protocol as in ALPN, like h2',
  '^.{1,255}$',
  'h2',
)

const serverNamesForm =
  'a list of pools, like [{names: [db.example], endpoints: [10.0.0.5:443]}]'

const serverNamePool = mapping(
  {
    names: v.optional(
      v.pipe(
        list(serverName, 'a list of host names, like [db.example]'),
        v.minLength(1, isNot('a list of one host name or more, like [db.example]')),
      ),
    ),
    alpn: v.optional(
      v.pipe(
        list(alpnProtocol, 'a list of protocols, like [h2]'),
        v.minLength(1, isNot('a list of one protocol or more, like [h2]')),
      ),
    ),
    endpoints: targets,
  },
  'a pool, like {names: [db.example], endpoints: [10.0.0.5:443]}',
  { endpoints: 'a list like [10.0.0.5:443]' },
)

const fileOptions = {
  serverNames: option(
    v.pipe(list(serverNamePool, serverNamesForm), v.minLength(1, isNot(serverNamesForm))),
    'TCP only, and in a file only. Endpoints for TLS clients, chosen by server name (SNI) and protocol (ALPN). Other clients get `endpoints` or `tiers`, and are refused if there are none.',
    {
      protocol: 'TCP',
      show: (_, { serverNames }) => serverNames && `${serverNames.pools.length} pools`,
    },
  ),
  ...routeOptions,
}

/** Of a route in a file, of which a flag has all but `serverNames`. */
export const allOptions: Options = fileOptions

/**
 * What is in force beyond the spec of a Service, by the names that options have in a file of routes:
 * what is not said there and has no default is left out. Of lists there is the number of ranges that
 * they come to.
 */
export const optionsInForce = (
  options: TrafficOptions,
): Readonly<Record<string, string>> => {
  // As most of 10 000 Services are.
  if (!hasTraffic(options)) return {}
  const given = Object.entries(allOptions).flatMap(([name, one]) => {
    const text = shown(one, options)
    return text === undefined ? [] : [[name, text] as const]
  })
  return Object.fromEntries(given)
}

/** One route, as a file has it; a flag is taken apart into the same. */
export const routeShape = mapping(
  {
    listen: described(
      v.union(
        [
          listenPlace,
          v.pipe(
            list(listenPlace, listenForm),
            v.minLength(1, 'is empty; give one address or more, like [tcp://[::]:15432]'),
          ),
        ],
        isNot(`${listenForm}, or a list of them`),
      ),
      'Where to listen: a protocol, an address of this host and a port, with IPv6 in brackets; or a unix socket, `unix:/run/db.sock`, or an abstract one, `unix:@db`. Or a list of these, all of one protocol. `0.0.0.0` is every IPv4 address and `[::]` every IPv6 address, without IPv4; for both use `[tcp://0.0.0.0:15432, "tcp://[::]:15432"]`.',
      'tcp://127.0.0.1:15432',
    ),
    endpoints: v.optional(
      described(
        targets,
        'Addresses or host names, each with a port, or unix sockets (`unix:/run/db.sock`), optionally with a weight from 0 to 256 (1 by default): `10.0.0.5:5432 weight=3`. Names are resolved again when their DNS records expire.',
      ),
    ),
    tiers: v.optional(
      described(
        v.pipe(
          list(
            targets,
            'a list of lists of HOST:PORT, like [[10.0.0.5:5432], [10.1.0.5:5432]]',
          ),
          v.minLength(
            1,
            'is empty; give one list or more, like [[10.0.0.5:5432], [10.1.0.5:5432]]',
          ),
        ),
        'Replaces `endpoints` with a list of such lists. A tier is used only while all tiers before it are down.',
      ),
    ),
    ...v.partial(v.object(schemasOf(fileOptions))).entries,
  },
  'a route, like {listen: tcp://127.0.0.1:15432, endpoints: [10.0.0.5:5432]}',
  { listen: 'one like tcp://127.0.0.1:15432' },
)

export type RawRoute = v.InferOutput<typeof routeShape>

const oneRoute = '[{listen: tcp://127.0.0.1:15432, endpoints: [10.0.0.5:5432]}]'
const routesForm = `a list of routes, like ${oneRoute}`

/** A file of routes. */
export const fileShape = mapping(
  {
    routes: v.pipe(
      list(routeShape, routesForm),
      v.minLength(1, `is empty; give ${routesForm}`),
    ),
  },
  `a file of routes; give routes: ${oneRoute}`,
  { routes: routesForm },
)
