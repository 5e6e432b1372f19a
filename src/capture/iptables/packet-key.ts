import type { Protocol } from '../../model/service.ts'
import { parseCidr } from '../../util/cidr.ts'
import { canonicalIp, type IpFamily } from '../../util/ip.ts'

/**
 * What a rule matches, as a text of digits: the address in hexadecimal (left out for
 * rules of one port on all addresses), `t` or `u`, and the port in hexadecimal.
 */
export const packetKey = (
  address: string | undefined,
  protocol?: Protocol,
  port?: number,
): string => {
  const digits = address === undefined ? '' : addressDigits(address)
  if (protocol === undefined || port === undefined) return digits
  return `${digits}${protocol === 'TCP' ? 't' : 'u'}${hex(port, 4)}`
}

/** The match, as in `-d 10.96.0.0/20`, for all packets whose key begins with `prefix`. */
export const prefixMatch = (
  prefix: string,
  keysBeginWith: 'address' | 'port',
  family: IpFamily,
): string => {
  const addressLength = keysBeginWith === 'port' ? 0 : addressBits[family] / bitsPerDigit
  const address = prefix.slice(0, addressLength)
  const [protocol, port] = [prefix[addressLength], prefix.slice(addressLength + 1)]
  const parts: string[] = []
  if (address !== '') parts.push(`-d ${blockOf(address, family)}`)
  if (protocol === undefined) return parts.join(' ')
  const name = protocol === 't' ? 'tcp' : 'udp'
  parts.push(`-p ${name}`)
  if (port !== '') parts.push(`-m ${name} --dport ${portsOf(port)}`)
  return parts.join(' ')
}

/** `10.96.0.1/32`, as iptables-save prints one address. */
export const hostBlock = (address: string, family: IpFamily): string =>
  `${address}/${addressBits[family]}`

const addressBits: Readonly<Record<IpFamily, number>> = { IPv4: 32, IPv6: 128 }
const bitsPerDigit = 4

const hex = (value: number, digits: number): string =>
  value.toString(16).padStart(digits, '0')

const addressDigits = (address: string): string => {
  if (!address.includes(':')) {
    let value = 0
    for (const part of address.split('.')) value = value * 256 + Number(part)
    return hex(value, 8)
  }
  const words = parseCidr(`${address}/128`)?.words ?? []
  return words.map(word => hex(word, 8)).join('')
}

const blockOf = (digits: string, family: IpFamily): string => {
  const whole = digits.padEnd(addressBits[family] / bitsPerDigit, '0')
  const length = digits.length * bitsPerDigit
  if (family === 'IPv4') {
    const parts = whole.match(/../g) ?? []
    return `${parts.map(part => parseInt(part, 16)).join('.')}/${length}`
  }
  const text = (whole.match(/.{4}/g) ?? []).join(':')
  return `${canonicalIp(text) ?? text}/${length}`
}

const portsOf = (digits: string): string => {
  const [first, last] = [digits.padEnd(4, '0'), digits.padEnd(4, 'f')]
  const [from, to] = [parseInt(first, 16), parseInt(last, 16)]
  return from === to ? String(from) : `${from}:${to}`
}
