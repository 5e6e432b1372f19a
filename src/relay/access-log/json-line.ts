import { causeText, type Attempt } from '../cause.ts'
import {
  type AccessEntry,
  acceptedAt,
  type LoggedRoute,
  placeOf,
} from './access-entry.ts'
import { utcText } from './time-text.ts'
import { isUnix, unixPlace } from '../../util/unix-address.ts'

/** Refusals cost a microsecond, so that a connection may have dozens of attempts. */
const mostAttempts = 16

/** A field of a line in JSON. Docs have a table of them; a test compares. */
export interface JsonField {
  /** OpenTelemetry's name (semantic conventions 1.37) where it has one. */
  readonly name: string
  readonly meaning: string
  /** As JSON, for each connection; undefined where it is left out. */
  readonly of?: (entry: AccessEntry) => string | undefined
  /** The same for all connections of a route. */
  readonly ofRoute?: (route: LoggedRoute) => string | undefined
}

/** To a microsecond; a fraction as text costs more than the rest of a line. */
const milliseconds = (ms: number): string => {
  const whole = Math.floor(ms)
  const rest = Math.round((ms - whole) * 1000)
  if (rest === 0) return `${whole}`
  if (rest === 1000) return `${whole + 1}`
  return `${whole}.${rest < 10 ? '00' : rest < 100 ? '0' : ''}${rest}`
}

/** As JSON.stringify, which few texts need. */
const quoted = (text: string): string =>
  /^[\w.:[\]-]*$/.test(text) ? `"${text}"` : JSON.stringify(text)

const portText = (place: string): string | undefined => {
  const { port } = placeOf(place)
  return port === 0 ? undefined : `${port}`
}

const ended = utcText()
const accepted = utcText()

const ofRoute: readonly JsonField[] = [
  {
    name: 'event.name',
    meaning: 'always `usher.connection`',
    ofRoute: () => '"usher.connection"',
  },
  {
    name: 'usher.route',
    meaning: 'the name of the route',
    ofRoute: ({ route }) => JSON.stringify(route),
  },
  {
    name: 'network.transport',
    meaning: '`tcp`, or `unix` where the route listens on a unix socket',
    ofRoute: ({ bind }) => (isUnix(bind?.address ?? '') ? '"unix"' : '"tcp"'),
  },
  {
    name: 'server.address',
    meaning: 'where the route listens; left out where that is several addresses',
    ofRoute: ({ bind }) => bind && JSON.stringify(unixPlace(bind.address)),
  },
  {
    name: 'server.port',
    meaning: 'its port; likewise left out, and for a unix socket',
    ofRoute: ({ bind }) => (bind && bind.port > 0 ? `${bind.port}` : undefined),
  },
]

const ofEach: readonly JsonField[] = [
  {
    name: 'time',
    meaning: 'when the connection ended: RFC 3339, UTC, milliseconds',
    of: ({ endedAt }) => `"${ended(endedAt)}"`,
  },
  {
    name: 'usher.accepted_time',
    meaning: 'when it was accepted',
    of: entry => `"${accepted(acceptedAt(entry))}"`,
  },
  {
    name: 'client.address',
    meaning: 'the address of the client; `unix:` if it connected over a unix socket',
    of: ({ record }) => quoted(placeOf(record.client).address),
  },
  {
    name: 'client.port',
    meaning: 'its port',
    of: ({ record }) => portText(record.client),
  },
  {
    name: 'network.type',
    meaning: '`ipv4` or `ipv6`: what `client.address` is; left out for a unix socket',
    of: ({ record: { client } }) =>
      isUnix(client) ? undefined : client.startsWith('[') ? '"ipv6"' : '"ipv4"',
  },
  {
    name: 'network.peer.address',
    meaning:
      'the address of the endpoint that took the connection; left out where none did',
    of: ({ record }) =>
      record.endpoint === '' ? undefined : quoted(placeOf(record.endpoint).address),
  },
  {
    name: 'network.peer.port',
    meaning: 'its port; left out where none did',
    of: ({ record }) => portText(record.endpoint),
  },
  {
    name: 'usher.endpoint',
    meaning: 'the same as `ip:port`, as log and metrics have it; empty where none did',
    of: ({ record }) => quoted(record.endpoint),
  },
  {
    name: 'usher.attempts',
    meaning: `each dial, in order, the first ${mostAttempts}: \`endpoint\`; \`result\`, which is \`connected\`, \`refused\`, \`timeout\`, \`lost\` (another was first), \`cancelled\`, \`closed early\`, \`no answer\`, \`not replayed\` (one of these two, and its client had said more than \`replay\`) or the name of an error; \`ms\` from its start to its result`,
    of: ({ record }) => attemptsText(record.attempts),
  },
  {
    name: 'usher.more_attempts',
    meaning:
      'how many there were beyond those; left out where there were none. Of the rounds of dials of a wait (`hold`) only the last is kept, beside the dials before it',
    of: ({ record: { attempts } }) =>
      attempts.length > mostAttempts ? `${attempts.length - mostAttempts}` : undefined,
  },
  {
    name: 'usher.bytes_from_client',
    meaning: 'bytes of payload from the client',
    of: ({ record }) => `${record.bytesToBackend}`,
  },
  {
    name: 'usher.bytes_to_client',
    meaning: 'bytes of payload from the endpoint, for the client',
    of: ({ record }) => `${record.bytesToClient}`,
  },
  {
    name: 'usher.dial_ms',
    meaning:
      'milliseconds from the accept until an endpoint was connected, or Usher gave up; includes the time that the client waited',
    of: ({ record }) => milliseconds(record.dialMs),
  },
  {
    name: 'usher.hold_ms',
    meaning:
      'of these, milliseconds waited for an endpoint to come back, or for the end of a pause',
    of: ({ waited }) => milliseconds(waited.heldMs),
  },
  {
    name: 'usher.queue_ms',
    meaning: 'of these, milliseconds waited for a place, at endpoints that were full',
    of: ({ waited }) => milliseconds(waited.queuedMs),
  },
  {
    name: 'usher.total_ms',
    meaning: 'milliseconds from the accept to the end',
    of: ({ record }) => milliseconds(record.totalMs),
  },
  {
    name: 'usher.cause',
    meaning: 'how it ended, [two letters](architecture.md#causes) as HAProxy has them',
    of: ({ record }) => `"${record.cause}"`,
  },
  {
    name: 'usher.cause_text',
    meaning: 'the same in words',
    of: ({ record }) => `"${causeText[record.cause]}"`,
  },
  {
    name: 'usher.detail',
    meaning: 'the error or reason behind it; left out where it ended normally',
    of: ({ record }) =>
      record.detail === '' ? undefined : JSON.stringify(record.detail),
  },
]

export const jsonFields: readonly JsonField[] = [...ofRoute, ...ofEach]

/** Makes the lines of a route, each one JSON object. */
export const jsonLines = (route: LoggedRoute): ((entry: AccessEntry) => string) => {
  const fixed = ofRoute.flatMap(({ name, ofRoute: of }) => {
    const value = of?.(route)
    return value === undefined ? [] : [`${JSON.stringify(name)}:${value}`]
  })
  const start = `{${fixed.join(',')}`
  return entry => {
    let line = start
    for (const { key, of } of keyed) {
      const value = of(entry)
      if (value !== undefined) line += key + value
    }
    return `${line}}\n`
  }
}

const keyed = ofEach.map(({ name, of = () => undefined }) => ({
  key: `,${JSON.stringify(name)}:`,
  of,
}))

const attemptsText = (attempts: readonly Attempt[]): string => {
  let text = '['
  for (const { endpoint, result, ms } of attempts.slice(0, mostAttempts)) {
    if (text.length > 1) text += ','
    text += `{"endpoint":${quoted(endpoint)},"result":${quoted(result)},"ms":${milliseconds(ms)}}`
  }
  return `${text}]`
}
