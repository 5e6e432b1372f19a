import { badValue, value, type Value } from './value.ts'

/** Ports from `first` to `last`, both included. */
export interface PortRange {
  readonly first: number
  readonly last: number
}

/**
 * `30000-32000`, `30000+2000` or `30000` (the forms kube-proxy takes; `base+size` has
 * its last port at base plus size). Empty, `0` and `0-0` are undefined: the system chooses.
 */
export const portRange: Value<PortRange | undefined> = value('RANGE', text => {
  if (text === '' || text === '0' || text === '0-0') return undefined
  const match = /^(\d{1,5})(?:([-+])(\d{1,5}))?$/.exec(text)
  const first = Number(match?.[1])
  const second = Number(match?.[3] ?? first)
  const last = match?.[2] === '+' ? first + second : second
  if (!(first >= 1 && first <= last && last <= 65535))
    throw badValue(
      text,
      'is not a range of ports',
      'give one within 1-65535, lower port first, like 30000-32000 or 30000+2000',
    )
  return { first, last }
})
