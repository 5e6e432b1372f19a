import { parseCidr, type Cidr } from '../../util/cidr.ts'
import { canonicalIp } from '../../util/ip.ts'

/**
 * The canonical spelling of an address in an object of Kubernetes; undefined when it is
 * none. Leading zeros are decimal there (`010.0.0.1` is 10.0.0.1), since objects from
 * before the API refused them may still be stored, and every other part of a cluster reads
 * them so (ParseIPSloppy of k8s.io/utils/net). Elsewhere Usher refuses them (CVE-2021-29923).
 */
export const objectIp = (text: string): string | undefined =>
  canonicalIp(withoutZeros(text))

/** The same for a CIDR, `203.0.113.000/025` (ParseCIDRSloppy). */
export const objectCidr = (text: string): Cidr | undefined => {
  const [, address = '', length = ''] = /^([^/]+)\/(\d+)$/.exec(text) ?? []
  return parseCidr(`${withoutZeros(address)}/${withoutZeros(length)}`)
}

/** Only where there is a number in decimal: groups of IPv6 are not, and may have zeros. */
const withoutZeros = (text: string): string =>
  text.replaceAll(/(^|[.:])0+(?=\d+(\.|$))/g, '$1')
