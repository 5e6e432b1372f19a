import { availableParallelism } from 'node:os'
import type { Clock } from '../util/clock.ts'
import {
  chooseRelay,
  type RelayChoice,
  type RelayName,
  type WantedRelay,
} from './choose-relay.ts'
import type { Privileges } from './privileges.ts'
import { RelayEngine } from './engine/relay-engine.ts'
import type { HandsOver, Relay, RelayLimits, RelayObserver } from './relay.ts'
import { linuxLayer } from './sockets/linux/linux-layer.ts'
import { probeLinuxRelay } from './sockets/linux/probe.ts'
import { nodeLayer } from './sockets/node/node-layer.ts'

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
  readonly relay: Relay & HandsOver
  readonly choice: ChosenRelay
}

/**
 * Makes a relay in this process. Rejects with
 * RelayUnavailable when the one that was asked for by name does not work here, and when it can't
 * start, as when there are too few descriptors.
 */
export const makeRelay = async (
  wanted: WantedRelay,
  deps: RelayDeps,
): Promise<MadeRelay & { readonly relay: RelayEngine }> => {
  const choice = await choiceOf(wanted)
  const workers = workersOf(choice.name, deps.workers)
  const layer = (choice.name === 'linux' ? linuxLayer : nodeLayer)(deps.limits)
  return {
    relay: new RelayEngine({ ...deps, workers, layer }),
    choice: { ...choice, workers },
  }
}

const choiceOf = async (wanted: WantedRelay): Promise<RelayChoice> =>
  wanted === 'portable' ? chooseRelay(wanted) : chooseRelay(wanted, probeLinuxRelay)

/** More threads than that have to be asked for. */
const mostUnasked = 4

/** Threads of a relay: `wanted`, where 0 is one for each core, at most 4. */
export const workersOf = (relay: RelayName, wanted = 0): number => {
  if (relay === 'portable') return 1
  return wanted > 0 ? wanted : Math.min(availableParallelism(), mostUnasked)
}
