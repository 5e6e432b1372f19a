import type { OptionsOf, SharedOptions } from '../config/options.ts'
import type { RelayOptions } from '../proxy/options.ts'
import type { RelayLimits } from '../relay/relay.ts'

/** `run` and `sidecar` have some that the demo does without. */
type ServerOptions = Pick<
  OptionsOf<'run'>,
  keyof OptionsOf<'run'> & keyof OptionsOf<'sidecar'>
>

const limits = [
  'dialLadder',
  'halfCloseTimeout',
  'tcpIdleTimeout',
  'connectionBuffer',
  'udpReplyTimeout',
  'udpTimeout',
  'udpMaxFlowsPerPort',
  'udpMaxFlows',
  'reservedFds',
  'tcpKeepalive',
  'tcpKeepaliveInterval',
  'tcpKeepaliveProbes',
  'tcpUserTimeout',
] as const satisfies readonly (keyof RelayLimits)[]

/** Those of the options that are the relay's. */
export const relayLimits = (
  options: SharedOptions & Partial<ServerOptions>,
): RelayLimits => pick(options, limits)

/** With the keys that `from` lacks, as undefined. */
const pick = <T extends object, K extends keyof T>(
  from: T,
  keys: readonly K[],
): Pick<T, K> => Object.fromEntries(keys.map(key => [key, from[key]])) as Pick<T, K>

/** Which relay, as the flags have it. */
export const relayOptions = (options: ServerOptions): RelayOptions => ({
  relay: options.relay,
  relayWorkers: options.relayWorkers,
})
