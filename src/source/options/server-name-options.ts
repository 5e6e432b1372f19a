import * as v from 'valibot'
import { isNot, checkedText } from '../../util/schema.ts'
import { isDnsSubdomain, list } from '../decode/fields.ts'

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
