import type { RelayObserver } from './relay.ts'

/** Wants to hear of nothing. */
export const silentObserver: RelayObserver = {
  wants: () => false,
  connectionClosed: () => {},
  bindChanged: () => {},
  acceptPaused: () => {},
  workerHung: () => {},
  fault: () => {},
}
