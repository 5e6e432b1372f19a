import { objectCidr } from './object-ip.ts'
import { show } from './printable.ts'
import type { Fault } from './problem.ts'

/** Canonical spelling, each once, without those that are none. Blanks around them are allowed. */
export const canonicalCidrs = (given: readonly string[]): string[] => [
  ...new Set(given.flatMap(text => objectCidr(text.trim())?.text ?? [])),
]

/** One for each that `canonicalCidrs` leaves out; `field` is that of the list. */
export const cidrFaults = (field: string, given: readonly string[]): Fault[] =>
  given.flatMap((text, i) => {
    if (objectCidr(text.trim()) !== undefined) return []
    const message = `${show(text)} is not a CIDR; give one like 192.0.2.0/24 or 2001:db8::/32`
    return [{ field: `${field}[${i}]`, message }]
  })
