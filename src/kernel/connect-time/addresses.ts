import type { Protocol } from '../../model/service.ts'
import { type AddressPort, addressBytes } from '../../util/ip.ts'
import { protocolNumber } from '../nft/tables.ts'
import { address } from './tables.ts'

/** As tables have it, its bytes as latin1. */
export const addressOf = (ip: string, port: number, protocol?: Protocol): string => {
  const bytes = addressBytes(ip)
  const number = protocol === undefined ? 0 : protocolNumber[protocol]
  const rest = String.fromCharCode(...bytes, port >> 8, port & 0xff, number)
  return `${bytes.length === 4 ? mapped : ''}${rest}${padding}`
}

/** Before an IPv4 address. */
const mapped = `${'\0'.repeat(10)}\xff\xff`
const padding = '\0'.repeat(address.size - address.protocol - 1)

/** The other way round; IPv6 is not compressed. */
export const readAddressOf = (text: string): AddressPort => {
  const bytes = Buffer.from(text, 'latin1')
  const port = bytes.readUInt16BE(address.port)
  const isMapped = bytes.readBigUInt64BE(0) === 0n && bytes.readUInt32BE(8) === 0xffff
  if (isMapped) return { address: bytes.subarray(12, 16).join('.'), port }
  const groups = bytes.toString('hex', 0, 16).match(/.{4}/g) ?? []
  return { address: groups.join(':'), port }
}
