import * as v from 'valibot'
import {
  accessLogFormats,
  type AccessLogOptions,
  readLogDestination,
} from '../../model/access-log.ts'
import { readBlock } from '../../util/address-ranges.ts'
import { isNot, checkedText, choice } from '../../util/schema.ts'
import { withAccess } from '../../util/unix-address.ts'
import { isDnsSubdomain, list } from '../decode/fields.ts'
import type { Given } from './option-text.ts'

// Options that routes alone have, not Services. Only checks, as in decode/fields.ts.

/** A line for each connection; of routes only. */
export const accessLogOptions = {
  accessLog: choice(
    accessLogFormats,
    'TCP only; off by default. A line for each connection that has ended: as JSON, or as HAProxy writes it with `option tcplog`. See [access-log.md](access-log.md).',
    'json',
  ),
  accessLogTo: v.pipe(
    checkedText(
      given => readLogDestination(given) !== undefined,
      'stdout, file:/PATH or syslog:udp://ADDRESS:PORT, like file:/var/log/usher/db.log or syslog:udp://127.0.0.1:514',
      String.raw`^(stdout|file:(/|[A-Za-z]:[/\\]).*[^/]|syslog:udp://.+:\d{1,5})$`,
      'file:/var/log/usher/db.log',
    ),
    v.description(
      'Where those lines go: `stdout`, which is the default, `file:/PATH`, or `syslog:udp://ADDRESS:PORT`.',
    ),
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

const block = checkedText(
  given => readBlock(given) !== undefined,
  'an address or a CIDR, like 10.0.0.0/8',
  String.raw`^([0-9.]+(/\d{1,2})?|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*(/\d{1,3})?)$`,
  '10.0.0.0/8',
)

/** What Usher is told of clients; for routes alone. */
export const acceptOptions = {
  acceptProxy: v.pipe(
    list(block, 'a list of addresses and CIDRs, like [10.0.0.0/8]'),
    v.minLength(1, 'is empty; give one address or more, like [10.0.0.0/8]'),
    v.description(
      'TCP only. Proxies before Usher, addresses and CIDRs: a connection from one of them begins with a header of the PROXY protocol, v1 or v2, which says who the client is.',
    ),
    v.examples([['10.0.0.0/8']]),
  ),
}

const modeForm = "three octal digits as a text, like '660'"
const ownerForm = "numbers of a user and a group as a text, like '999:999'"
const owner = /^(\d{1,9})?(?::(\d{1,9}))?$/

/** Who may connect to a route that listens at a path. */
export const socketOptions = {
  socketMode: v.pipe(
    checkedText(given => /^0?[0-7]{3}$/.test(given), modeForm, '^0?[0-7]{3}$', '600'),
    v.description(
      'Of a route that listens at a path: the mode of its file, in octal digits; who may write to it may connect. 660 by default.',
    ),
  ),
  socketOwner: v.pipe(
    checkedText(
      given => given !== '' && owner.test(given),
      ownerForm,
      String.raw`^(\d{1,9})?(:\d{1,9})?$`,
      '999:999',
    ),
    v.description(
      'Of a route that listens at a path: the numbers of its file’s user and group (`id postgres` prints them), or of one of them: `999`, `:999`. Those of Usher by default; another user takes root.',
    ),
  ),
}

/** Where to listen, with who may connect; of options without faults. */
export const socketAddress = (
  address: string,
  raw: Given<typeof socketOptions>,
): string => {
  const [, uid, gid] = owner.exec(raw.socketOwner ?? '') ?? []
  return withAccess(address, { mode: raw.socketMode, uid, gid })
}

/** In lower case, without a dot at its end, as `readClientHello` gives names. */
export const plainName = (name: string): string => name.toLowerCase().replace(/\.$/, '')

const name = checkedText(
  given => isDnsSubdomain(plainName(given).replace(/^\*\./, '')),
  'a host name, like db.example, or all below one, like *.apps.example',
  String.raw`^(\*\.)?[a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?\.?$`,
  'db.example',
)

const protocol = checkedText(
  given => given.length >= 1 && given.length <= 255,
  'a protocol as in ALPN, like h2',
  '^.{1,255}$',
  'h2',
)

/** Of a pool of `serverNames`, beside its endpoints. */
export const serverNameFields = {
  names: v.optional(
    v.pipe(
      list(name, 'a list of host names, like [db.example]'),
      v.minLength(1, isNot('a list of one host name or more, like [db.example]')),
    ),
  ),
  alpn: v.optional(
    v.pipe(
      list(protocol, 'a list of protocols, like [h2]'),
      v.minLength(1, isNot('a list of one protocol or more, like [h2]')),
    ),
  ),
}
