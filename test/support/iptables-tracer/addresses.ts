import { BlockList, isIPv6, SocketAddress } from 'node:net'

/** Written apart from Usher's own reading of addresses, so that it can disagree. */

const familyOf = (address: string): 'ipv4' | 'ipv6' => (isIPv6(address) ? 'ipv6' : 'ipv4')

/** Canonical; throws on what is none. */
export const canonicalAddress = (text: string): string =>
  new SocketAddress({ address: text, family: familyOf(text) }).address

/** Canonical, always with a length: `10.0.0.1` is `10.0.0.1/32`. */
export const canonicalCidr = (text: string): string => {
  const [address = '', length] = text.split('/')
  const full = familyOf(address) === 'ipv6' ? '128' : '32'
  return `${canonicalAddress(address)}/${length ?? full}`
}

/** Whether an address is in a canonical CIDR; one of the other family never is. */
export const inCidr = (cidr: string): ((address: string) => boolean) => {
  const [net = '', length = ''] = cidr.split('/')
  const family = familyOf(net)
  const list = new BlockList()
  list.addSubnet(net, Number(length), family)
  return address => familyOf(address) === family && list.check(address, family)
}

/** The same for `10.0.0.1-10.0.0.9`. */
export const inRange = (range: string): ((address: string) => boolean) => {
  const [first = '', last = ''] = range.split('-')
  const family = familyOf(first)
  const list = new BlockList()
  list.addRange(first, last, family)
  return address => familyOf(address) === family && list.check(address, family)
}

/** `10.0.0.1:80`, `[fd00::1]:80`. */
export const socketText = (address: string, port: number): string =>
  isIPv6(address) ? `[${address}]:${port}` : `${address}:${port}`

export const parseSocket = (text: string): { address: string; port: number } => {
  const [, address, port] = /^\[?([\d.a-f:]+?)\]?:(\d+)$/.exec(text) ?? []
  if (address === undefined) throw new Error(`not address:port: ${text}`)
  return { address: canonicalAddress(address), port: Number(port) }
}
