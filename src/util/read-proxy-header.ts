import {
  type AddressPort,
  addressText,
  canonicalIp,
  familyOf,
  type IpFamily,
} from './ip.ts'
import { mostHeaderBytes, v2, v2Signature } from './proxy-header.ts'

/** The longest header of v2 that is taken, with what is in it beside addresses, which is skipped. */
const mostBytes = 4096

/** Of a proxy's client; without addresses the connection is the proxy's own. */
export interface ProxiedClient {
  /** Bytes of the header. */
  readonly length: number
  readonly addresses:
    { readonly source: AddressPort; readonly destination: AddressPort } | undefined
}

/**
 * Reads a header of the PROXY protocol, v1 or v2, from the first bytes of a connection. Undefined
 * while more is needed; a text says what is wrong with it.
 */
export const readProxyHeader = (bytes: Buffer): ProxiedClient | string | undefined => {
  const known = Math.min(bytes.length, v2Signature.length)
  if (bytes.subarray(0, known).equals(v2Signature.subarray(0, known)))
    return known < v2Signature.length ? undefined : readV2(bytes)
  return readV1(bytes)
}

const start = Buffer.from('PROXY ', 'latin1')

const readV1 = (bytes: Buffer): ProxiedClient | string | undefined => {
  const known = Math.min(bytes.length, start.length)
  if (!bytes.subarray(0, known).equals(start.subarray(0, known))) return 'no PROXY header'
  const end = bytes.subarray(0, mostHeaderBytes).indexOf('\r\n')
  if (end === -1)
    return bytes.length < mostHeaderBytes ? undefined : 'a PROXY header that is too long'
  const line = bytes.toString('latin1', 0, end)
  const length = end + 2
  if (/^PROXY UNKNOWN( |$)/.test(line)) return { length, addresses: undefined }
  const [, name, ...parts] =
    /^PROXY TCP([46]) (\S+) (\S+) (\d{1,5}) (\d{1,5})$/.exec(line) ?? []
  const family = name === '4' ? 'IPv4' : 'IPv6'
  const [from = '', to = '', fromPort = '', toPort = ''] = parts
  const source = endOf(from, fromPort)
  const destination = endOf(to, toPort)
  if (source === undefined || destination === undefined) return 'a malformed PROXY header'
  // nginx names the family of the client, and writes its own address as it is.
  if (familyOf(from) !== family && familyOf(to) !== family)
    return 'a malformed PROXY header'
  return { length, addresses: { source, destination } }
}

const endOf = (text: string, port: string): AddressPort | undefined => {
  const address = familyOf(text) === undefined ? undefined : canonicalIp(text)
  const isPort = /^(0|[1-9]\d*)$/.test(port) && Number(port) <= 65_535
  return address === undefined || !isPort ? undefined : { address, port: Number(port) }
}

const readV2 = (bytes: Buffer): ProxiedClient | string | undefined => {
  if (bytes.length < v2.headBytes) return undefined
  const [command = 0, transport = 0] = bytes.subarray(v2Signature.length)
  const rest = bytes.readUInt16BE(v2Signature.length + 2)
  const length = v2.headBytes + rest
  if (command !== v2.local && command !== v2.proxy) return 'a malformed PROXY header'
  if (length > mostBytes) return 'a PROXY header that is too long'
  if (bytes.length < length) return undefined
  const family = command === v2.local ? undefined : familyOfTcp.get(transport)
  if (family === undefined) return { length, addresses: undefined }
  if (rest < v2.addressBytes[family]) return 'a malformed PROXY header'
  return { length, addresses: addressesOf(bytes.subarray(v2.headBytes), family) }
}

/** Others (UDP, unix sockets, none) say nothing of a client of TCP. */
const familyOfTcp: ReadonlyMap<number, IpFamily> = new Map([
  [v2.tcp.IPv4, 'IPv4'],
  [v2.tcp.IPv6, 'IPv6'],
])

const addressesOf = (body: Buffer, family: IpFamily): ProxiedClient['addresses'] => {
  const size = family === 'IPv4' ? 4 : 16
  const end = (which: 0 | 1): AddressPort => ({
    address: addressText(body.subarray(which * size, (which + 1) * size)),
    port: body.readUInt16BE(2 * size + 2 * which),
  })
  return { source: end(0), destination: end(1) }
}
