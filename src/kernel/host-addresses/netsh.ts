import type { IpFamily } from '../../util/ip.ts'

/**
 * Arguments of netsh.exe that put a single address on an interface, or take it off.
 * `store=active`: it is gone after a restart of the system. `skipassource`: no connection
 * of the host's has it as its source.
 */
export const netshArguments = (
  action: 'add' | 'delete',
  interfaceName: string,
  cidr: string,
): readonly string[] => {
  const address = cidr.slice(0, cidr.lastIndexOf('/'))
  const family: IpFamily = address.includes(':') ? 'IPv6' : 'IPv4'
  // The two halves of netsh name the same thing differently.
  const start =
    family === 'IPv4'
      ? ['interface', 'ipv4', action, 'address', `name=${interfaceName}`]
      : ['interface', 'ipv6', action, 'address', `interface=${interfaceName}`]
  if (action === 'delete') return [...start, `address=${address}`, 'store=active']
  const mask =
    family === 'IPv4'
      ? [`address=${address}`, 'mask=255.255.255.255']
      : [`address=${address}/128`]
  return [...start, ...mask, 'skipassource=true', 'store=active']
}

/** That list the addresses of an interface. */
export const netshList = (family: IpFamily, interfaceName: string): readonly string[] => [
  'interface',
  family === 'IPv4' ? 'ipv4' : 'ipv6',
  'show',
  'addresses',
  family === 'IPv4' ? `name=${interfaceName}` : `interface=${interfaceName}`,
]

/** netsh says in the language of the system that something is there, or is not. */
export const listsAddress = (text: string, address: string): boolean =>
  text
    .toLowerCase()
    .split(/[\s,]+/)
    .includes(address)
