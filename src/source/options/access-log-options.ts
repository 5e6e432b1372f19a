import * as v from 'valibot'
import {
  accessLogFormats,
  type AccessLogOptions,
  readLogDestination,
} from '../../model/access-log.ts'
import { isNot } from '../../util/schema.ts'
import { described, checkedText, type Given } from './option-kinds.ts'

/** A line for each connection; of routes only. */
export const accessLogOptions = {
  accessLog: described(
    v.picklist(accessLogFormats, isNot('json or tcplog')),
    'TCP only; off by default. A line for each connection that has ended: as JSON, or as HAProxy writes it with `option tcplog`. See [access-log.md](access-log.md).',
    'json',
  ),
  accessLogTo: described(
    checkedText(
      given => readLogDestination(given) !== undefined,
      'stdout, file:/PATH or syslog:udp://ADDRESS:PORT, like file:/var/log/usher/db.log or syslog:udp://127.0.0.1:514',
      String.raw`^(stdout|file:(/|[A-Za-z]:[/\\]).*[^/]|syslog:udp://.+:\d{1,5})$`,
      'file:/var/log/usher/db.log',
    ),
    'Where those lines go: `stdout`, which is the default, `file:/PATH`, or `syslog:udp://ADDRESS:PORT`.',
  ),
}

/** Of options without faults. `route`: what the route is called. */
export const decodeAccessLog = (
  { accessLog, accessLogTo = 'stdout' }: Given<typeof accessLogOptions>,
  route: string,
): { readonly accessLog?: AccessLogOptions } =>
  accessLog === undefined
    ? {}
    : { accessLog: { format: accessLog, to: accessLogTo, route } }
