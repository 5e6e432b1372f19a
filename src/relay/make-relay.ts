import { availableParallelism } from 'node:os'
import type { Clock } from '../util/clock.ts'
import type { RelayName } from './choose-relay.ts'
import type { Relay, RelayLimits, RelayObserver } from './relay.ts'

export interface RelayDeps {
  readonly clock: Clock
  /** 0 <= n < 1. */
  readonly random: () => number
  readonly limits: RelayLimits
  readonly observer: RelayObserver
  /** RLIMIT_NOFILE of the process. */
  readonly openFileLimit: number
  /** Whether a client's address is this node's own or one of its pods'. */
  readonly isFromNode: (address: string) => boolean
  /** Threads that carry connections; the portable relay has none of its own. */
  readonly workers: number
}

/** More threads than that have to be asked for. */
const mostUnasked = 4

/** Threads of a relay: `wanted`, where 0 is one for each core, at most 4. */
export const workersOf = (relay: RelayName, wanted = 0): number => {
  if (relay === 'portable') return 1
  return wanted > 0 ? wanted : Math.min(availableParallelism(), mostUnasked)
}

/**
 * Makes a relay, `supervised` in a process of its own. Of the one that is not wanted, nothing
 * is loaded. Rejects when it can't start, for want of descriptors for instance.
 */
export const makeRelay = async (
  name: RelayName,
  supervised: boolean,
  deps: RelayDeps,
): Promise<Relay> => {
  if (supervised) {
    const { superviseRelay } = await import('./supervised/supervise-relay.ts')
    return superviseRelay({ ...deps, relay: name })
  }
  if (name === 'linux') {
    const { LinuxRelay } = await import('./linux/linux-relay.ts')
    return new LinuxRelay(deps)
  }
  const { PortableRelay } = await import('./portable/portable-relay.ts')
  return new PortableRelay(deps)
}
