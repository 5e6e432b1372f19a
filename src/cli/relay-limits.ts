import type { SharedOptions } from '../config/typed.ts'
import type { RelayLimits } from '../relay/relay.ts'

/** The relay's limits as the flags have them. */
export const relayLimits = (options: SharedOptions): RelayLimits => ({
  dialLadderMs: options.dialLadder,
  halfCloseIdleMs: options.halfCloseTimeout,
  tcpIdleMs: options.tcpIdleTimeout,
  bufferBytes: options.connectionBuffer,
  udpReplyIdleMs: options.udpReplyTimeout,
  udpIdleMs: options.udpTimeout,
  udpFlowsPerListener: options.udpMaxFlowsPerPort,
  udpFlows: options.udpMaxFlows,
  reservedFds: options.reservedFds,
})
