import type { OptionsOf, SharedOptions } from '../config/options.ts'
import type { RelayOptions } from '../proxy/options.ts'
import type { RelayLimits } from '../relay/relay.ts'

/** `run` and `sidecar` have some that the demo does without. */
type ServerOptions = Pick<
  OptionsOf<'run'>,
  keyof OptionsOf<'run'> & keyof OptionsOf<'sidecar'>
>

/** The relay's limits as the flags have them. */
export const relayLimits = (
  options: SharedOptions & Partial<ServerOptions>,
): RelayLimits => ({
  dialLadderMs: options.dialLadder,
  halfCloseIdleMs: options.halfCloseTimeout,
  tcpIdleMs: options.tcpIdleTimeout,
  bufferBytes: options.connectionBuffer,
  udpReplyIdleMs: options.udpReplyTimeout,
  udpIdleMs: options.udpTimeout,
  udpFlowsPerListener: options.udpMaxFlowsPerPort,
  udpFlows: options.udpMaxFlows,
  reservedFds: options.reservedFds,
  keepAliveIdleMs: options.tcpKeepalive,
  ...(options.tcpKeepaliveInterval !== undefined && {
    keepAliveIntervalMs: options.tcpKeepaliveInterval,
  }),
  ...(options.tcpKeepaliveProbes !== undefined && {
    keepAliveProbes: options.tcpKeepaliveProbes,
  }),
  ...(options.tcpUserTimeout !== undefined && { userTimeoutMs: options.tcpUserTimeout }),
})

/** Which relay, as the flags have it. */
export const relayOptions = (options: ServerOptions): RelayOptions => ({
  relay: options.relay,
  relayWorkers: options.relayWorkers,
})
