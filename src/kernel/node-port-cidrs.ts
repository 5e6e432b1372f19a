import { parseCidr } from '../util/cidr.ts'
import { familyOf, type IpFamily, isLoopback, isWildcard } from '../util/ip.ts'

/** What each word of --nodeport-addresses stands for, apart from `primary`. */
const blocks: Readonly<Record<string, readonly string[]>> = {
  localhost: ['127.0.0.0/8', '::1/128'],
  all: ['0.0.0.0/0', '::/0'],
}

/**
 * Which of the host's addresses answer node ports, as --nodeport-addresses says: CIDRs,
 * `primary`, `localhost`, `all`. As kube-proxy has it, a family in which that leaves
 * nothing answers on all its addresses: so do both when nothing is given, IPv6 when there
 * are IPv4 CIDRs only, and `primary` while no address of the node is known but loopback.
 * `nodeAddresses` are the node's primary ones, one of a family at most.
 */
export const nodePortCidrs = (
  values: readonly string[],
  nodeAddresses: readonly string[],
): ((family: IpFamily) => readonly string[] | undefined) => {
  const cidrs = values
    .flatMap(value =>
      value === 'primary' ? primary(nodeAddresses) : (blocks[value] ?? value),
    )
    .flatMap(text => parseCidr(text) ?? [])
  return family => {
    const own = cidrs.filter(cidr => cidr.family === family)
    const all = own.length === 0 || own.some(cidr => cidr.prefixLength === 0)
    return all ? undefined : [...new Set(own.map(({ text }) => text))].toSorted()
  }
}

/**
 * Those of IPv4 on any node, for what is settled before the Node is known: whatever its
 * `primary` is, it is not loopback. An example address stands for it (RFC 5737).
 */
export const nodePortCidrsOfAnyNode = (
  values: readonly string[],
): readonly string[] | undefined => nodePortCidrs(values, ['192.0.2.1'])('IPv4')

/** An unknown address is loopback or the wildcard with kube-proxy. */
const primary = (addresses: readonly string[]): readonly string[] =>
  addresses
    .filter(address => !isLoopback(address) && !isWildcard(address))
    .map(address => `${address}/${familyOf(address) === 'IPv6' ? 128 : 32}`)
