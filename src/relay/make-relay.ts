import { availableParallelism } from 'node:os'
import type { Clock } from '../util/clock.ts'
import {
  chooseRelay,
  type RelayChoice,
  type RelayName,
  type WantedRelay,
} from './choose-relay.ts'
import type { Privileges } from './privileges.ts'
import type { SocketLayer } from './engine/socket-layer.ts'
import type { RelayEngine } from './engine/relay-engine.ts'
import type { Relay, RelayLimits, RelayObserver } from './relay.ts'

export interface RelayDeps {
  readonly clock: Clock
  readonly limits: RelayLimits
  readonly observer: RelayObserver
  /** RLIMIT_NOFILE of the process. */
  readonly openFileLimit: number
  /** Threads that carry connections; 0: one for each core, at most 4. */
  readonly workers: number
}

/** The relay that was chosen, and how it runs. */
export interface ChosenRelay extends RelayChoice {
  /** Threads that carry connections. */
  readonly workers: number
  /** Of the process that it has for itself; undefined when it has none. */
  readonly ownProcess?: OwnProcess
}

export interface OwnProcess {
  /** What the process says of itself; undefined where there is no such thing to say. */
  readonly privileges: Privileges | undefined
  /** Why it has more than it needs; '' when it has not. */
  readonly excess: string
}

/** A relay, and why it is this one. */
export interface MadeRelay {
  readonly relay: Relay
  readonly choice: ChosenRelay
}

/**
 * Makes a relay in this process, and loads nothing of the other one. Rejects with
 * RelayUnavailable when the one that was asked for by name does not work here, and when it can't
 * start, as when there are too few descriptors.
 */
export const makeRelay = async (
  wanted: WantedRelay,
  deps: RelayDeps,
): Promise<MadeRelay & { readonly relay: RelayEngine }> => {
  const choice = await choiceOf(wanted)
  const workers = workersOf(choice.name, deps.workers)
  return {
    relay: await relayOf(choice.name, { ...deps, workers }),
    choice: { ...choice, workers },
  }
}

const choiceOf = async (wanted: WantedRelay): Promise<RelayChoice> =>
  wanted === 'portable'
    ? chooseRelay(wanted)
    : chooseRelay(wanted, (await import('./sockets/linux/probe.ts')).probeLinuxRelay)

const relayOf = async (name: RelayName, deps: RelayDeps): Promise<RelayEngine> => {
  const { RelayEngine } = await import('./engine/relay-engine.ts')
  return new RelayEngine({ ...deps, layer: await layerOf(name, deps.limits) })
}

/** Loads nothing of the other one. */
const layerOf = async (name: RelayName, limits: RelayLimits): Promise<SocketLayer> =>
  name === 'linux'
    ? (await import('./sockets/linux/linux-layer.ts')).linuxLayer(limits)
    : (await import('./sockets/node/node-layer.ts')).nodeLayer(limits)

/** More threads than that have to be asked for. */
const mostUnasked = 4

/** Threads of a relay: `wanted`, where 0 is one for each core, at most 4. */
export const workersOf = (relay: RelayName, wanted = 0): number => {
  if (relay === 'portable') return 1
  return wanted > 0 ? wanted : Math.min(availableParallelism(), mostUnasked)
}
