import type { CaptureChoice } from '../capture/fallback-capture.ts'
import type { ModeChoice } from '../mode/fallback-mode.ts'
import type { FallBack } from '../kernel/keeper/fallback.ts'
import type { ModeName } from '../mode/mode.ts'
import type { Log, LogFields } from '../observe/log.ts'
import type { ChosenRelay } from '../relay/make-relay.ts'
import { privilegesText } from '../relay/privileges.ts'
import type { RelayLimits } from '../relay/relay.ts'
import type { PassedOver } from '../util/selection.ts'
import type { ProxyOptions } from './options.ts'

const reasons = (
  detail: string,
  passedOver: readonly PassedOver[],
): Pick<LogFields, string> => ({
  ...(detail !== '' && { detail }),
  ...(passedOver.length > 0 && {
    passedOver: Object.fromEntries(passedOver.map(one => [one.name, one.detail])),
  }),
})

/** Whether another mode runs than the one that was asked for. */
export const isFallBack = ({ mode, name }: ModeChoice): boolean =>
  mode !== '' && mode !== name

/** Which mode runs, and why not another. People look for kube-proxy's words. */
export const sayMode = (log: Log, choice: ModeChoice): void => {
  const { name, by, detail, passedOver } = choice
  log[isFallBack(choice) ? 'warn' : 'info'](
    { mode: name, ...(by !== '' && { askedBy: by }), ...reasons(detail, passedOver) },
    `Using ${name} Proxier`,
  )
}

/** Where kube-proxy warns of a mode (server_linux.go of 1.37): an Event's reason and text. */
export const modeWarning = ({
  mode,
  by,
  name,
}: ModeChoice): { readonly reason: string; readonly message: string } | undefined => {
  if (mode === '' && by === '' && name === 'iptables')
    return {
      reason: 'KubeProxyDefaultMode',
      message:
        'no proxy mode is configured: iptables is used, as by kube-proxy. From Kubernetes 1.40 on the default is nftables; to stay with iptables set --proxy-mode iptables, or mode: iptables in the configuration file',
    }
  if (name === 'ipvs')
    return {
      reason: 'IPVSDeprecation',
      message:
        'kube-proxy deprecates ipvs mode: disabled by default from Kubernetes 1.40 on, removed in 1.43. Usher keeps it; to be able to go back to kube-proxy, migrate to --proxy-mode nftables',
    }
  return undefined
}

/** For an Event. */
export const choiceText = ({ mode, name, passedOver }: ModeChoice): string => {
  const why = passedOver.map(one => `${one.name}: ${one.detail}`).join('; ')
  return `${mode} mode was asked for, ${name} mode runs: ${why}`
}

export const sayFallBack = (log: Log, { from, to, why }: FallBack<ModeName>): void =>
  log.error({ from, to, why }, `Using ${to} Proxier: the mode before no longer works`)

/** For an Event. */
export const fallBackText = ({ from, to, why }: FallBack<ModeName>): string =>
  `${from} mode no longer works, ${to} mode runs: ${why}`

export const sayCapture = (log: Log, { name, detail, passedOver }: CaptureChoice): void =>
  // Then clients of most Services are not served.
  log[name === 'listen' && passedOver.length > 0 ? 'warn' : 'info'](
    { capture: name, ...reasons(detail, passedOver) },
    'how traffic for VIPs gets here',
  )

export const sayRelay = (
  log: Log,
  { name, detail, passedOver, workers, ownProcess }: ChosenRelay,
  { limits, relayWorkers = 0 }: Pick<ProxyOptions, 'limits' | 'relayWorkers'>,
): void => {
  log.info(
    {
      relay: name,
      ...(name === 'linux' && { workers }),
      ...(ownProcess?.privileges && {
        ownProcess: privilegesText(ownProcess.privileges),
      }),
      ...reasons(detail, passedOver),
      ...(name === 'portable' && { lacks: portableLacks }),
    },
    'what carries the bytes',
  )
  if (ownProcess !== undefined && ownProcess.excess !== '')
    log.warn(
      { why: ownProcess.excess },
      'the process of the relay keeps privileges that it does not need',
    )
  const flags = name === 'portable' ? ignoredByPortable(limits, relayWorkers) : []
  if (flags.length > 0)
    log.warn({ flags }, 'without effect: only the linux relay has them')
}

/** Of what the linux relay does: Node's sockets have no SO_LINGER. */
const portableLacks =
  'when it is killed, its connections end in order and not by a reset: a cut answer may look whole'

/**
 * It has one worker. Node's sockets have the idle time of keep-alive, and an interval and count of
 * their own.
 */
const ignoredByPortable = (
  limits: RelayLimits,
  relayWorkers: number,
): readonly string[] => [
  ...(relayWorkers <= 1 ? [] : ['relay-workers']),
  ...((limits.tcpKeepaliveInterval ?? 1000) === 1000 ? [] : ['tcp-keepalive-interval']),
  ...((limits.tcpKeepaliveProbes ?? 10) === 10 ? [] : ['tcp-keepalive-probes']),
  ...((limits.tcpUserTimeout ?? 0) === 0 ? [] : ['tcp-user-timeout']),
]
