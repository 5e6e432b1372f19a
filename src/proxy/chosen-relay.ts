import { chooseRelay, type RelayChoice } from '../relay/choose-relay.ts'
import { workersOf } from '../relay/make-relay.ts'
import type { RelayOptions } from './options.ts'

/** The relay that was chosen, and how it runs. */
export interface ChosenRelay extends RelayChoice {
  /** Threads that carry connections. */
  readonly workers: number
  /** It has a process of its own. */
  readonly supervised: boolean
}

/** Throws RelayUnavailable when the one that was asked for can't be had. */
export const chosenRelay = async ({
  relay: wanted = 'portable',
  relayWorkers,
  supervise: supervised = false,
}: RelayOptions): Promise<ChosenRelay> => {
  const choice =
    wanted === 'portable'
      ? chooseRelay(wanted)
      : chooseRelay(wanted, (await import('../relay/linux/probe.ts')).probeLinuxRelay)
  return { ...choice, workers: workersOf(choice.name, relayWorkers), supervised }
}
