import * as v from 'valibot'
import { isNot } from '../../util/schema.ts'
import { isDnsLabel, list } from '../decode/fields.ts'
import { accessLogOptions } from '../options/access-log-options.ts'
import { endpointOptions } from '../options/endpoint-options.ts'
import { described, checkedText, durationText } from '../options/option-kinds.ts'
import { entryForm, readEntry } from './client-list.ts'
import { acceptOptions } from '../options/proxy-options.ts'
import { serverNameFields } from '../options/server-name-options.ts'
import { socketOptions } from '../options/socket-options.ts'
import { listenForm, readListen, readTarget, targetForm } from './route-address.ts'

// The one definition of a route: the flag and the file are read by it, and the JSON Schema
// and the table in docs/sidecar-options.md are made from it. Only checks, as in decode/fields.ts.

/** A text that a reader may find a fault in. `pattern`: as much of that as an editor knows. */
const readable = (
  form: string,
  read: (given: string) => unknown,
  pattern: string,
  example: string,
) =>
  v.pipe(
    v.string(isNot(form)),
    v.check(
      given => typeof read(given) !== 'string',
      issue => String(read(issue.input)),
    ),
    v.metadata({ pattern }),
    v.examples([example]),
  )

/** The same as a Service's `timeoutSeconds` has: one second to one day, in milliseconds. */
const affinityBounds = [1000, 86_400_000] as const

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

const clients = (example: string) =>
  v.pipe(
    list(
      readable(entryForm, readEntry, entryPattern, example),
      'a list of addresses and CIDRs, like [10.0.0.0/8]',
    ),
    v.minLength(1, 'is empty; give one address or more, like [10.0.0.0/8]'),
    v.examples([[example]]),
  )

/** Beside where a route listens and goes: in a file, and after the `?` of a flag. */
export const routeOptions = {
  name: described(
    checkedText(
      isDnsLabel,
      'a name: lower-case letters, digits and "-", at most 63',
      '^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$',
      'db',
    ),
    'What the log, metrics and `usher status` call it; unique. Without it, it is called by where it listens: `tcp-127-0-0-1-15432`.',
  ),
  affinity: described(
    durationText(...affinityBounds, 'from 1s to 24h', '3h'),
    'Keeps a client at one endpoint until it has been away for that long, 1s to 24h. Without it there is none.',
  ),
  ...endpointOptions,
  allow: described(
    clients('10.0.0.0/8'),
    'Only these clients: addresses, CIDRs, and files of them (`file:/etc/usher/clients.txt`). Everybody by default.',
  ),
  deny: described(
    clients('192.0.2.0/24'),
    'None of these clients; it is looked at before `allow`.',
  ),
  probers: described(
    clients('10.0.0.2'),
    'TCP only. Connections of these, like load balancers that probe, are accepted and closed in order: nothing is dialled, counted or logged (HAProxy: `monitor-net`).',
  ),
  ...acceptOptions,
  onGone: described(
    v.picklist(['keep', 'reset'], isNot('keep or reset')),
    'TCP only. What becomes of the connections to an address that the answer for a name, or the file, no longer has: they are kept, which is the default, or reset.',
    'reset',
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

const serverNamesForm =
  'a list of pools, like [{names: [db.example], endpoints: [10.0.0.5:443]}]'

const serverNamePool = mapping(
  { ...serverNameFields, endpoints: targets },
  'a pool, like {names: [db.example], endpoints: [10.0.0.5:443]}',
  { endpoints: 'a list like [10.0.0.5:443]' },
)

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
      'Where to listen: a protocol, an address of this host and a port, IPv6 in brackets; or a unix socket, `unix:/run/db.sock`, or an abstract one, `unix:@db`. Or a list of those, of one protocol. `0.0.0.0` is every IPv4 address and `[::]` every IPv6 address, without IPv4: for both give `[tcp://0.0.0.0:15432, "tcp://[::]:15432"]`.',
      'tcp://127.0.0.1:15432',
    ),
    endpoints: v.optional(
      described(
        targets,
        'Where to go: addresses or host names, each with a port, or unix sockets (`unix:/run/db.sock`), and with a share of the connections if it is not 1: `10.0.0.5:5432 weight=3`, 0 to 256. Names are looked up again as their records expire.',
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
        'In place of `endpoints`: lists of them. One is for when all those before it are down.',
      ),
    ),
    serverNames: v.optional(
      described(
        v.pipe(
          list(serverNamePool, serverNamesForm),
          v.minLength(1, isNot(serverNamesForm)),
        ),
        'TCP only, and in a file only. Endpoints for TLS clients by the server name and the protocols (ALPN) that they ask for; `endpoints` or `tiers` are for all others, who are refused without.',
      ),
    ),
    ...v.partial(v.object(routeOptions)).entries,
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
