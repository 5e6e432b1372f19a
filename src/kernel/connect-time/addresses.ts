import type { Protocol } from '../../model/service.ts'
import { type AddressPort, addressBytes } from '../../util/ip.ts'
import { protocolNumber } from '../nft/tables.ts'
import { address } from './tables.ts'

/** As tables have it, its bytes as latin1. */
export const addressOf = (ip: string, port: number, protocol?: Protocol): string => {
  const bytes = Buffer.alloc(address.size)
  const ofFamily = addressBytes(ip)
  if (ofFamily.length === 4) bytes.writeUInt16BE(0xffff, 10)
  bytes.set(ofFamily, 16 - ofFamily.length)
  bytes.writeUInt16BE(port, address.port)
  if (protocol !== undefined) bytes[address.protocol] = protocolNumber[protocol]
  return bytes.toString('latin1')
}

/** The other way round; IPv6 is not compressed. */
export const readAddressOf = (text: string): AddressPort => {
  const bytes = Buffer.from(text, 'latin1')
  const port = bytes.readUInt16BE(address.port)
  const isMapped = bytes.readBigUInt64BE(0) === 0n && bytes.readUInt32BE(8) === 0xffff
  if (isMapped) return { address: bytes.subarray(12, 16).join('.'), port }
  const groups = bytes.toString('hex', 0, 16).match(/.{4}/g) ?? []
  return { address: groups.join(':'), port }
}
