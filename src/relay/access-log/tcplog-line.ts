import type { Attempt } from '../cause.ts'
import { type AccessEntry, acceptedAt, type LoggedRoute } from './access-entry.ts'
import { localText } from './time-text.ts'

/** A field of HAProxy's `option tcplog`, with what it is here. Docs have a table; a test compares. */
export interface TcplogField {
  /** As in a `log-format` of HAProxy. */
  readonly name: string
  readonly meaning: string
  /** How it differs from HAProxy's; '' where it does not. */
  readonly differs: string
}

export const tcplogFields: readonly TcplogField[] = [
  { name: '%ci:%cp', meaning: 'address and port of the client', differs: '' },
  {
    name: '[%tr]',
    meaning: 'when it was accepted, in local time, with milliseconds',
    differs: '',
  },
  { name: '%ft', meaning: 'the route', differs: '' },
  {
    name: '%b/%s',
    meaning:
      'the route, and the endpoint that was dialled last; `<NOSRV>` where none was',
    differs: 'the endpoint is `ip:port`, as it has no other name',
  },
  {
    name: '%Tw',
    meaning:
      'milliseconds that it waited: for a place at an endpoint, for one to come back, or for the end of a pause; -1 where it did not and nothing was dialled',
    differs: 'includes the wait of a hold or a pause, which is not a queue',
  },
  {
    name: '%Tc',
    meaning:
      'milliseconds for connecting, retries included; -1 where no endpoint connected',
    differs: '',
  },
  { name: '%Tt', meaning: 'milliseconds from the accept to the end', differs: '' },
  { name: '%B', meaning: 'bytes from the endpoint', differs: '' },
  {
    name: '%ts',
    meaning: 'how it ended, [two letters](architecture.md#causes)',
    differs: 'the second letter is where Usher was; see there',
  },
  {
    name: '%ac',
    meaning: 'connections that are open',
    differs: 'of the worker that had it, not of all',
  },
  {
    name: '%fc',
    meaning: 'those of the route',
    differs: 'of the worker that had it',
  },
  {
    name: '%bc',
    meaning: 'the same without this one',
    differs: 'of the worker that had it',
  },
  {
    name: '%sc',
    meaning: 'those of the endpoint, without this one',
    differs: 'of the worker that had it',
  },
  {
    name: '%rc',
    meaning: 'dials beyond the first; with `+` when the last was to another endpoint',
    differs:
      'some may have been in parallel; of the rounds of a wait only the last one counts',
  },
  { name: '%sq/%bq', meaning: 'always `0/0`', differs: 'queues have no positions' },
]

/** Makes the lines of a route, as HAProxy with `option tcplog` does. */
export const tcplogLines = ({ route }: LoggedRoute): ((entry: AccessEntry) => string) => {
  const accepted = localText()
  return entry => {
    const { record, waited, open } = entry
    const { client, attempts, endpoint, dialMs, totalMs, cause } = record
    const last = endpoint === '' ? (attempts.at(-1)?.endpoint ?? '<NOSRV>') : endpoint
    const held = Math.round(waited.heldMs + waited.queuedMs)
    const dial = endpoint === '' ? -1 : Math.max(Math.round(dialMs) - held, 0)
    const wait = attempts.length === 0 && held === 0 ? -1 : held
    return (
      `${plain(client)} [${accepted(acceptedAt(entry))}] ${route} ${route}/${last} ` +
      `${wait}/${dial}/${Math.round(totalMs)} ${record.bytesToClient} ${cause} ` +
      `${open.all + 1}/${open.route + 1}/${open.route}/${open.endpoint}/${retries(attempts, last)} 0/0\n`
    )
  }
}

/** HAProxy has IPv6 without brackets: the port is after the last colon. */
const plain = (client: string): string =>
  client.startsWith('[') ? client.slice(1).replace(']', '') : client

const retries = (attempts: readonly Attempt[], last: string): string => {
  const more = Math.max(attempts.length - 1, 0)
  return more > 0 && attempts[0]?.endpoint !== last ? `+${more}` : `${more}`
}
