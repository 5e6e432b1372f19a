import type { OptionsOf, SharedOptions } from '../config/options.ts'
import type { RelayOptions } from '../proxy/options.ts'
import type { RelayLimits } from '../relay/relay.ts'

/** `run` and `sidecar` have some that the demo does without. */
type ServerOptions = Pick<
  OptionsOf<'run'>,
  keyof OptionsOf<'run'> & keyof OptionsOf<'sidecar'>
>

/** Those of the options that are the relay's. */
export const relayLimits = ({
  dialLadder,
  halfCloseTimeout,
  tcpIdleTimeout,
  connectionBuffer,
  udpReplyTimeout,
  udpTimeout,
  udpMaxFlowsPerPort,
  udpMaxFlows,
  reservedFds,
  tcpKeepalive,
  tcpKeepaliveInterval,
  tcpKeepaliveProbes,
  tcpUserTimeout,
}: SharedOptions & Partial<ServerOptions>): RelayLimits => ({
  dialLadder,
  halfCloseTimeout,
  tcpIdleTimeout,
  connectionBuffer,
  udpReplyTimeout,
  udpTimeout,
  udpMaxFlowsPerPort,
  udpMaxFlows,
  reservedFds,
  tcpKeepalive,
  tcpKeepaliveInterval,
  tcpKeepaliveProbes,
  tcpUserTimeout,
})

/** Which relay, as the flags have it. */
export const relayOptions = (options: ServerOptions): RelayOptions => ({
  relay: options.relay,
  relayWorkers: options.relayWorkers,
})
