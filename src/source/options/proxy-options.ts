import * as v from 'valibot'
import { readBlock } from '../../util/address-ranges.ts'
import { proxyVersions } from '../../util/proxy-header.ts'
import { isNot } from '../../util/schema.ts'
import { list } from '../decode/fields.ts'
import { described, checkedText } from './option-kinds.ts'

/** What endpoints are told of their clients. */
export const proxyOptions = {
  proxyProtocol: described(
    v.picklist(proxyVersions, isNot('v1 or v2')),
    'TCP only; off by default. Endpoints are told who the client is by a header of the PROXY protocol, v1 (text) or v2 (binary), before its first byte. They have to expect it.',
    'v2',
  ),
}

const block = checkedText(
  given => readBlock(given) !== undefined,
  'an address or a CIDR, like 10.0.0.0/8',
  String.raw`^([0-9.]+(/\d{1,2})?|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*(/\d{1,3})?)$`,
  '10.0.0.0/8',
)

/** What Usher is told of clients; for routes alone. */
export const acceptOptions = {
  acceptProxy: described(
    v.pipe(
      list(block, 'a list of addresses and CIDRs, like [10.0.0.0/8]'),
      v.minLength(1, 'is empty; give one address or more, like [10.0.0.0/8]'),
    ),
    'TCP only. Proxies before Usher, addresses and CIDRs: a connection from one of them begins with a header of the PROXY protocol, v1 or v2, which says who the client is.',
    ['10.0.0.0/8'],
  ),
}
