import type { Selection } from '../util/selection.ts'
import type { LinuxRelayParts } from './sockets/linux/probe.ts'

/** A relay, as --relay names it. */
export type RelayName = 'linux' | 'portable'

export type WantedRelay = RelayName | 'auto'

export type RelayChoice = Selection<RelayName>

/** Finds out by doing it. Never throws. */
export type RelayProbe = () => LinuxRelayParts | { readonly reason: string }

const notProbed: RelayProbe = () => ({ reason: 'not tried' })

/** It was asked for by name, and does not work here; the message says why. */
export class RelayUnavailable extends Error {
  override readonly name = 'RelayUnavailable'
  /** What an operator can mend needs no stack. */
  readonly code = 'ERR_RELAY_UNAVAILABLE'
}

/** The message where the linux relay was asked for by name. */
export const unavailable = (reason: string): string =>
  `--relay linux does not work here: ${reason}; --relay auto takes the portable one`

/** Why the portable relay was taken without being asked for. */
export const portableDetail = 'runs wherever Node does'

/**
 * The relay to run. With `auto` the linux relay, where it works; `probe` is not asked for
 * `portable`. Throws RelayUnavailable when `linux` is wanted and does not work.
 */
export const chooseRelay = (
  wanted: WantedRelay,
  probe: RelayProbe = notProbed,
): RelayChoice => {
  if (wanted === 'portable')
    return { name: 'portable', detail: 'as told', passedOver: [] }
  const found = probe()
  if (!('reason' in found)) {
    const detail = wanted === 'auto' ? 'everything it needs works here' : 'as told'
    return { name: 'linux', detail, passedOver: [] }
  }
  if (wanted === 'linux') throw new RelayUnavailable(unavailable(found.reason))
  return {
    name: 'portable',
    detail: portableDetail,
    passedOver: [{ name: 'linux', detail: found.reason }],
  }
}
