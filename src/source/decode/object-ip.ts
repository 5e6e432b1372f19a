import { parseCidr, type Cidr } from '../../util/cidr.ts'
import { canonicalIp, type IpFamily } from '../../util/ip.ts'
import { show } from '../../util/printable.ts'
import type { Fault } from './problem.ts'

/**
 * The canonical spelling of an address in an object of Kubernetes; undefined when it is
 * none. Leading zeros are decimal there (`010.0.0.1` is 10.0.0.1), since objects from
 * before the API refused them may still be stored, and every other part of a cluster reads
 * them so (ParseIPSloppy of k8s.io/utils/net). Elsewhere Usher refuses them (CVE-2021-29923).
 */
export const objectIp = (text: string): string | undefined =>
  canonicalIp(withoutZeros(text))

/** The same for a CIDR, `203.0.113.000/025` (ParseCIDRSloppy). */
const objectCidr = (text: string): Cidr | undefined => {
  const [, address = '', length = ''] = /^([^/]+)\/(\d+)$/.exec(text) ?? []
  return parseCidr(`${withoutZeros(address)}/${withoutZeros(length)}`)
}

/** Only where there is a number in decimal: groups of IPv6 are not, and may have zeros. */
const withoutZeros = (text: string): string =>
  text.replaceAll(/(^|[.:])0+(?=\d+(\.|$))/g, '$1')

/** Canonical spelling, each once, without those that are none. Blanks around them are allowed. */
export const canonicalCidrs = (given: readonly unknown[]): string[] => [
  ...new Set(given.flatMap(one => (typeof one === 'string' && cidrIn(one)?.text) || [])),
]

/** One for each that `canonicalCidrs` leaves out and that is there; `field` is that of the list. */
export const cidrFaults = (field: string, given: readonly unknown[]): Fault[] =>
  given.flatMap((one, i) => {
    const isSound = one === undefined || (typeof one === 'string' && cidrIn(one))
    if (isSound) return []
    const message = `${show(one)} is not a CIDR; give one like 192.0.2.0/24 or 2001:db8::/32`
    return [{ field: `${field}[${i}]`, message }]
  })

const cidrIn = (text: string): Cidr | undefined => objectCidr(text.trim())

/** A second one of its family, where there may be one of each; undefined for what is none. */
export const familyFaults = (
  field: string,
  families: readonly (IpFamily | undefined)[],
  what: string,
): Fault[] =>
  families.flatMap((family, i) => {
    if (family === undefined || families.indexOf(family) === i) return []
    const message = `is a second ${family} ${what}; give one of each family at most`
    return [{ field: `${field}[${i}]`, message }]
  })
