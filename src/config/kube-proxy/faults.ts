import { firstFew } from '../../util/printable.ts'
import { goMilliseconds } from '../../util/duration.ts'

/** Faults of a configuration are reported in the words and paths of kube-proxy. */
const at = (path: string): string => `KubeProxyConfiguration.${path}`

/** `KubeProxyConfiguration.SyncPeriod: Invalid value: "-5s": must be greater than 0`. */
export const invalid = (path: string, value: unknown, reason: string): string =>
  `${at(path)}: Invalid value: ${JSON.stringify(value)}: ${reason}`

/** For an entry of a list that is there already. */
export const duplicate = (path: string, value: string): string =>
  `${at(path)}: Duplicate value: ${JSON.stringify(value)}`

/** For a value that is not one of a few. */
export const unsupported = (
  path: string,
  value: string,
  right: readonly string[],
): string =>
  `${at(path)}: Unsupported value: ${JSON.stringify(value)}: supported values: ${right
    .map(each => JSON.stringify(each))
    .join(', ')}`

/** All of them as one message, in brackets when there are several. */
export const together = (faults: readonly string[]): string =>
  faults.length === 1 ? (faults[0] ?? '') : `[${firstFew(faults, ', ')}]`

export const faultIf = (
  wrong: boolean,
  path: string,
  value: unknown,
  reason: string,
): string[] => (wrong ? [invalid(path, value, reason)] : [])

export const notBelowZero = (path: string, value: number): string[] =>
  faultIf(value < 0, path, value, 'must be greater than or equal to 0')

export const spanNotBelowZero = (path: string, value: string): string[] =>
  faultIf(goMilliseconds(value) < 0, path, value, 'must be greater than or equal to 0')

export const spanAboveZero = (path: string, value: string): string[] =>
  faultIf(!(goMilliseconds(value) > 0), path, value, 'must be greater than 0')
