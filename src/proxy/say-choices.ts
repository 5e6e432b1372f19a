import type { Choice } from '../capture/choose-capture.ts'
import type { Log, LogFields } from '../observe/log.ts'
import type { RelayLimits } from '../relay/relay.ts'
import type { ChosenRelay } from './chosen-relay.ts'
import type { ProxyOptions } from './options.ts'

interface PassedOver {
  readonly name: string
  readonly detail: string
}

const reasons = (
  detail: string,
  passedOver: readonly PassedOver[],
): Pick<LogFields, string> => ({
  ...(detail !== '' && { detail }),
  ...(passedOver.length > 0 && {
    passedOver: Object.fromEntries(passedOver.map(one => [one.name, one.detail])),
  }),
})

export const sayCapture = (log: Log, { name, detail, passedOver }: Choice): void =>
  // Then clients of most Services are not served.
  log[name === 'listen' && passedOver.length > 0 ? 'warn' : 'info'](
    { capture: name, ...reasons(detail, passedOver) },
    'how traffic for VIPs gets here',
  )

export const sayRelay = (
  log: Log,
  { name, detail, passedOver, workers, supervised }: ChosenRelay,
  { limits, relayWorkers = 0 }: Pick<ProxyOptions, 'limits' | 'relayWorkers'>,
): void => {
  log.info(
    {
      relay: name,
      ...(name === 'linux' && { workers }),
      ...(supervised && { supervised }),
      ...reasons(detail, passedOver),
    },
    'what carries the bytes',
  )
  const flags = name === 'portable' ? ignoredByPortable(limits, relayWorkers) : []
  if (flags.length > 0)
    log.warn({ flags }, 'without effect: only the linux relay has them')
}

/** Node's sockets have the idle time of keep-alive, and an interval and count of their own. */
const ignoredByPortable = (
  limits: RelayLimits,
  relayWorkers: number,
): readonly string[] => [
  ...(relayWorkers === 0 ? [] : ['relay-workers']),
  ...((limits.keepAliveIntervalMs ?? 1000) === 1000 ? [] : ['tcp-keepalive-interval']),
  ...((limits.keepAliveProbes ?? 10) === 10 ? [] : ['tcp-keepalive-probes']),
  ...((limits.userTimeoutMs ?? 0) === 0 ? [] : ['tcp-user-timeout']),
]
