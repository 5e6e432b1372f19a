import type { Problem } from '../../model/snapshot.ts'
import { isOwnAddress } from '../local-addresses.ts'
import { permissionAdvice } from '../../kernel/permission-advice.ts'

/** So many single IPv6 addresses are felt: 0.1 ms at the start of each IPv6 connection. */
const manyAddresses = 500

/**
 * Why a VIP is not an address of this host, for its placement. `error` is that of
 * HostAddresses; undefined when it made the address the host's own, as far as is known.
 */
export const whyNotHeld = (error: string | undefined): string => {
  if (error === undefined) return ''
  const advice = permissionAdvice(error)
  return `it can't be made one: ${error}${advice && `; ${advice}`}`
}

/** VIPs that must not be taken, each with why, but for what this host has anyway. */
export const refusedProblems = (
  refused: ReadonlyMap<string, string>,
): readonly Problem[] =>
  [...refused]
    .filter(([address]) => !isOwnAddress(address))
    .map(([field, why]) => {
      return { object: 'capture local', field, message: `this VIP is not taken: ${why}` }
    })

/** What is wrong; of single VIPs that it is, for their placements say the rest. */
export const addressProblems = (
  errors: ReadonlyMap<string, string>,
  wanted: ReadonlySet<string>,
): readonly Problem[] => {
  const problems: Problem[] = []
  const missing = [...errors].filter(([cidr]) => isVip(cidr, wanted))
  const [first] = missing
  if (first !== undefined)
    problems.push({
      object: 'capture local',
      field: '',
      message: `${missing.length} of ${wanted.size} VIPs can't be made addresses of this host, ${first.join(': ')}`,
    })
  for (const [cidr, error] of errors) {
    if (isVip(cidr, wanted)) continue
    const isSingle = isSingleAddress(cidr)
    // Of IPv6 ranges nothing else is expected, and every address is had for itself.
    if (!isSingle && cidr.includes(':')) continue
    problems.push({
      object: 'capture local',
      field: cidr,
      message: isSingle
        ? `can't be given back: ${error}`
        : `can't be made this host's as a whole, only address by address: ${error}`,
    })
  }
  const six = [...wanted].filter(address => address.includes(':')).length
  if (six >= manyAddresses) problems.push(tooManyAddresses(six))
  return problems
}

/** Of VIPs that were added to this host, which is said to have them, and has not. */
export const lostProblem = (lost: readonly string[]): Problem => ({
  object: 'capture local',
  field: lost[0] ?? '',
  message: `${lost.length} of the VIPs that were added to this host are not there, this one first: another program takes them away`,
})

const isSingleAddress = (cidr: string): boolean =>
  cidr.endsWith(cidr.includes(':') ? '/128' : '/32')

const isVip = (cidr: string, wanted: ReadonlySet<string>): boolean =>
  isSingleAddress(cidr) && wanted.has(cidr.slice(0, cidr.indexOf('/')))

const tooManyAddresses = (count: number): Problem => ({
  object: 'capture local',
  field: 'IPv6',
  message: `${count} addresses on the loopback interface make the start of each IPv6 connection of this host slower, by about ${((count * 0.25) / 1000).toFixed(1)} ms; with net.ipv6.ip_nonlocal_bind=1 before Usher starts they would be routes, which cost nothing`,
})
