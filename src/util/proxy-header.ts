import { type AddressPort, addressBytes, familyOf } from './ip.ts'

// The PROXY protocol, https://www.haproxy.org/download/3.2/doc/proxy-protocol.txt: what a proxy
// says of its client before the client's first byte.

export type ProxyVersion = 'v1' | 'v2'

export const proxyVersions: readonly ProxyVersion[] = ['v1', 'v2']

/** The longest that `proxyHeader` makes. */
export const mostHeaderBytes = 107

/** No protocol begins with these. */
export const v2Signature = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1')

/** Behind the signature: version 2 with its command, family and transport, length of the rest. */
export const v2 = {
  headBytes: 16,
  version: 0x20,
  local: 0x20,
  proxy: 0x21,
  /** TCP over IPv4, and over IPv6. */
  tcp: { IPv4: 0x11, IPv6: 0x21 },
  /** Two addresses and two ports. */
  addressBytes: { IPv4: 12, IPv6: 36 },
} as const

/**
 * The header for a client at `source` that has dialled `destination`. Where that is not known it says that
 * it is the proxy's own connection; where they are of two families the IPv4 one is mapped (RFC 4291, 2.5.5.2).
 */
export const proxyHeader = (
  version: ProxyVersion,
  source: AddressPort,
  destination: AddressPort,
): Buffer => {
  const from = familyOf(source.address)
  const to = familyOf(destination.address)
  if (from === undefined || to === undefined) return ownHeader(version)
  if (from !== to) return proxyHeader(version, mapped(source), mapped(destination))
  const family = from
  if (version === 'v1') {
    const name = family === 'IPv4' ? 'TCP4' : 'TCP6'
    const addresses = `${source.address} ${destination.address}`
    return Buffer.from(
      `PROXY ${name} ${addresses} ${source.port} ${destination.port}\r\n`,
      'latin1',
    )
  }
  const header = head(v2.proxy, v2.tcp[family], v2.addressBytes[family])
  const length = family === 'IPv4' ? 4 : 16
  header.set(addressBytes(source.address), v2.headBytes)
  header.set(addressBytes(destination.address), v2.headBytes + length)
  header.writeUInt16BE(source.port, v2.headBytes + 2 * length)
  header.writeUInt16BE(destination.port, v2.headBytes + 2 * length + 2)
  return header
}

const mapped = ({ address, port }: AddressPort): AddressPort =>
  familyOf(address) === 'IPv4'
    ? { address: `::ffff:${address}`, port }
    : { address, port }

/** Of a connection of the proxy's own, as for a check. */
export const ownHeader = (version: ProxyVersion): Buffer =>
  version === 'v1' ? Buffer.from('PROXY UNKNOWN\r\n', 'latin1') : head(v2.local, 0, 0)

const head = (command: number, family: number, length: number): Buffer => {
  const header = Buffer.alloc(v2.headBytes + length)
  v2Signature.copy(header)
  header.writeUInt8(command, v2Signature.length)
  header.writeUInt8(family, v2Signature.length + 1)
  header.writeUInt16BE(length, v2Signature.length + 2)
  return header
}
