import * as v from 'valibot'
import { checkShape } from '../../health/check-option.ts'
import { parseBytes } from '../../util/bytes.ts'
import { parseDuration } from '../../util/duration.ts'
import { isDnsLabel, isNot, list } from '../decode/fields.ts'
import { listenForm, readListen, readTarget, targetForm } from './route-address.ts'

// The one definition of a route: the flag and the file are read by it, and the JSON Schema
// and the table in docs/sidecar.md are made from it. Only checks, as in decode/fields.ts.

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

const checkedText = (
  holds: (given: string) => boolean,
  right: string,
  pattern: string,
  example: string,
) =>
  v.pipe(
    v.string(isNot(right)),
    v.check(holds, isNot(right)),
    v.metadata({ pattern }),
    v.examples([example]),
  )

/** The same bounds as a Service's `timeoutSeconds`: one second to one day. */
const affinityBounds = { lowest: 1000, highest: 86_400_000 }

/** Milliseconds; undefined where the text is none, or out of bounds. */
export const readAffinity = (text: string): number | undefined => {
  const ms = parseDuration(text)
  const { lowest, highest } = affinityBounds
  return ms !== undefined && ms >= lowest && ms <= highest ? Math.round(ms) : undefined
}

const mostReplay = 64 * 1024

/** Bytes, `1k` for 1024; undefined where there are none, or too many. */
export const readReplay = (given: string | number): number | undefined => {
  const size = parseBytes(String(given).replace(/k$/, 'KiB'))
  return size !== undefined && size <= mostReplay ? size : undefined
}

/** A day: longer than any failover, and short enough for a number that is a mistake. */
const longestHoldMs = 86_400_000

/** Milliseconds; undefined where the text is none, or out of bounds. */
export const readHold = (text: string): number | undefined => {
  const ms = parseDuration(text)
  return ms !== undefined && ms >= 0 && ms <= longestHoldMs ? Math.round(ms) : undefined
}

const mostHeldForm = 'a number of clients from 1 to 65536, like 256'

const replayForm = 'a number of bytes from 0 to 64KiB, like 1k or 4KiB'

const target = readable(
  targetForm,
  readTarget,
  String.raw`^(\[[^\]]+\]|[^:\[\]]+):\d{1,5}$`,
  '10.0.0.5:5432',
)

const targets = v.pipe(
  list(target, 'a list of HOST:PORT, like [10.0.0.5:5432, 10.0.0.6:5432]'),
  v.minLength(1, 'is empty; give one HOST:PORT or more, like [10.0.0.5:5432]'),
)

/** Beside where a route listens and goes: in a file, and after the `?` of a flag. */
export const routeOptions = {
  name: v.pipe(
    checkedText(
      isDnsLabel,
      'a name: lower-case letters, digits and "-", at most 63',
      '^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$',
      'db',
    ),
    v.description(
      'What the log, metrics and `usher status` call it; unique. Without it, it is called by where it listens: `tcp-127-0-0-1-15432`.',
    ),
  ),
  affinity: v.pipe(
    checkedText(
      given => readAffinity(given) !== undefined,
      'a duration from 1s to 24h, like 3h or 10800s',
      String.raw`^([0-9.]+(ns|us|µs|ms|s|m|h))+$`,
      '3h',
    ),
    v.description(
      'Keeps a client at one endpoint until it has been away for that long, 1s to 24h. Without it there is none.',
    ),
  ),
  retryEarlyClose: v.pipe(
    v.boolean(isNot('true or false')),
    v.description(
      'TCP only; on by default. A connection that an endpoint accepts and ends before it has said anything goes to the next endpoint, as if it had been refused.',
    ),
    v.examples([false]),
  ),
  replay: v.pipe(
    v.union([v.string(), v.number()], isNot(replayForm)),
    v.check(given => readReplay(given) !== undefined, isNot(replayForm)),
    v.metadata({ pattern: String.raw`^\d+(k|Ki|KiB|B)?$` }),
    v.description(
      'TCP only; 0 by default, at most 64KiB. A connection whose client has said no more than so many bytes is retried all the same, and the next endpoint is told them again: they may be heard twice.',
    ),
    v.examples(['1k']),
  ),
  hold: v.pipe(
    checkedText(
      given => readHold(given) !== undefined,
      'a duration from 0s to 24h, like 30s',
      String.raw`^([0-9.]+(ns|us|µs|ms|s|m|h))+$`,
      '30s',
    ),
    v.description(
      'TCP only; 0s by default. How long a client waits for an endpoint to come back, counted from its connection, when none could be connected to. Endpoints are tried again every second or sooner.',
    ),
  ),
  mostHeld: v.pipe(
    v.number(isNot(mostHeldForm)),
    v.integer(isNot(mostHeldForm)),
    v.minValue(1, isNot(mostHeldForm)),
    v.maxValue(65_536, isNot(mostHeldForm)),
    v.description(
      'How many clients wait at most; 256 by default. The next one is reset.',
    ),
    v.examples([256]),
  ),
  check: v.pipe(
    checkShape,
    v.description(
      'How each endpoint is checked, every 2 s: `tcp`, `http://:8008/primary`, `postgres`, `redis` or `mysql`, or an object. One that is down gets no new connections; see below.',
    ),
    v.examples(['http://:8008/primary']),
  ),
  onDown: v.pipe(
    v.picklist(['keep', 'reset'], isNot('keep or reset')),
    v.description(
      'What becomes of the connections to an endpoint that goes down: they are kept, or reset. With a check for a role `reset` is what you want: the former primary answers, and takes no writes.',
    ),
    v.examples(['reset']),
  ),
}

/** As a file would have it; '' where there is none. */
export const exampleOf = (schema: v.GenericSchema): string => {
  const [one]: readonly unknown[] = v.getExamples(schema)
  return ['string', 'boolean', 'number'].includes(typeof one) ? String(one) : ''
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

/** One route, as a file has it; a flag is taken apart into the same. */
export const routeShape = mapping(
  {
    listen: v.pipe(
      readable(
        listenForm,
        readListen,
        String.raw`^([tT][cC][pP]|[uU][dD][pP])://.+:\d{1,5}$`,
        'tcp://127.0.0.1:15432',
      ),
      v.description(
        'Where to listen: a protocol, an address of this host (`0.0.0.0` for all, IPv6 in brackets) and a port.',
      ),
    ),
    endpoints: v.optional(
      v.pipe(
        targets,
        v.description(
          'Where to go: addresses or host names, each with a port. Names are looked up again as their records expire.',
        ),
      ),
    ),
    tiers: v.optional(
      v.pipe(
        list(
          targets,
          'a list of lists of HOST:PORT, like [[10.0.0.5:5432], [10.1.0.5:5432]]',
        ),
        v.minLength(
          1,
          'is empty; give one list or more, like [[10.0.0.5:5432], [10.1.0.5:5432]]',
        ),
        v.description(
          'In place of `endpoints`: lists of them. One is for when all those before it are down.',
        ),
      ),
    ),
    name: v.optional(routeOptions.name),
    affinity: v.optional(routeOptions.affinity),
    retryEarlyClose: v.optional(routeOptions.retryEarlyClose),
    replay: v.optional(routeOptions.replay),
    hold: v.optional(routeOptions.hold),
    mostHeld: v.optional(routeOptions.mostHeld),
    check: v.optional(routeOptions.check),
    onDown: v.optional(routeOptions.onDown),
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
