import * as v from 'valibot'
import { checkShape } from '../../health/check-option.ts'
import type { CheckEffects } from '../../model/service.ts'
import type { TrafficOptions } from '../../model/traffic.ts'
import { peek } from '../../util/json.ts'
import { isNot } from '../../util/schema.ts'
import { ageOptions, decodeAges } from './age-options.ts'
import { proxyOptions } from './proxy-options.ts'
import { balanceOptions, decodeBalance } from './balance-options.ts'
import { capacityOptions, decodeCapacity, queuesNothing } from './capacity-options.ts'
import { decodeLimits, limitOptions } from './limit-options.ts'
import type { Given } from './option-kinds.ts'
import { decodeUdp, udpOptions } from './udp-options.ts'
import { decodeRetry, replaysNothing, retryOptions } from './retry-options.ts'

// The one definition of how clients and endpoints are treated: by the options of a route, and
// by the annotations of a Service. Only checks, as in decode/fields.ts.

/** As a file of routes would have them. */
export const endpointOptions = {
  ...retryOptions,
  ...ageOptions,
  ...proxyOptions,
  ...balanceOptions,
  ...capacityOptions,
  ...limitOptions,
  ...udpOptions,
  check: v.pipe(
    checkShape,
    v.description(
      'How each endpoint is checked, every 2 s: `tcp`, `http://:8008/primary`, `postgres`, `redis` or `mysql`, or an object. One that is down gets no new connections; see below.',
    ),
    v.examples(['http://:8008/primary']),
  ),
  onDown: v.pipe(
    v.picklist(['keep', 'reset'], isNot('keep or reset')),
    v.description(
      'What becomes of the connections to an endpoint that goes down: they are kept, or reset. With a check for a role `reset` is what you want: the former primary answers, and takes no writes.',
    ),
    v.examples(['reset']),
  ),
  whenAllDown: v.pipe(
    v.picklist(['try', 'refuse'], isNot('try or refuse')),
    v.description(
      'Which endpoints get new connections while a check finds all of them down: all, as one may serve all the same (`try`), or none (`refuse`: clients are refused, or wait with `hold`). `refuse` is the default where the check asks for a role: `http`, `send` and `expect`, a Redis role; `try` with the others.',
    ),
    v.examples(['refuse']),
  ),
  onBack: v.pipe(
    v.picklist(['keep', 'reset'], isNot('keep or reset')),
    v.description(
      'TCP only. What becomes of the connections to a backup, an endpoint of a later tier or of weight 0, when a check finds one up again that goes before it: they are kept, which is the default, or reset.',
    ),
    v.examples(['reset']),
  ),
}

export const decodeEffects = ({
  onDown = 'keep',
  whenAllDown,
  onBack,
}: Given<
  Pick<typeof endpointOptions, 'onDown' | 'whenAllDown' | 'onBack'>
>): CheckEffects => ({
  onDown,
  ...(whenAllDown !== undefined && { whenAllDown }),
  ...(onBack !== undefined && { onBack }),
})

/** Of TCP options without faults. `earlyClose`: what holds where retryEarlyClose is not given. */
export const decodeTraffic = (
  raw: Given<Omit<typeof endpointOptions, 'check'>> & { readonly check?: unknown },
  earlyClose: boolean,
): TrafficOptions => ({
  retry: decodeRetry(raw, earlyClose),
  ages: decodeAges(raw),
  ...(raw.proxyProtocol !== undefined && { proxyProtocol: raw.proxyProtocol }),
  balance: decodeBalance(raw),
  capacity: decodeCapacity(raw),
  limits: decodeLimits(raw),
  udp: decodeUdp(raw),
})

/** The same of UDP options. */
export const decodeUdpTraffic = (
  raw: Given<
    Pick<typeof endpointOptions, 'balance' | 'slowStart' | keyof typeof udpOptions>
  >,
): TrafficOptions => ({
  retry: udpRetry,
  balance: decodeBalance(raw),
  udp: decodeUdp(raw),
})

/** An endpoint that answers nothing has failed where others answer. */
const udpRetry = { earlyClose: false, replay: 0, expectsReplies: true }

/** An option that has no effect. */
interface Idle {
  readonly name: keyof typeof endpointOptions
  readonly message: string
}

/**
 * Options that do nothing beside the others. Of any object: what can't be read has its fault
 * already. `nameOf`: what an option is called where it was written.
 */
export const idleOptions = (
  raw: object,
  earlyClose: boolean,
  nameOf: (option: string) => string = option => option,
): readonly Idle[] => {
  const idle: Idle[] = []
  if (replaysNothing(raw, earlyClose))
    idle.push({
      name: 'replay',
      message: `does nothing where ${nameOf('retryEarlyClose')} is off; leave it out, or switch that on`,
    })
  for (const name of ['onDown', 'whenAllDown', 'onBack'] as const)
    if (Object.hasOwn(raw, name) && !Object.hasOwn(raw, 'check'))
      idle.push({ name, message: 'does nothing without check; give that, too' })
  if (Object.hasOwn(raw, 'slowStart') && peek(raw, 'balance') === 'maglev')
    idle.push({
      name: 'slowStart',
      message:
        'does nothing with maglev, which gives each endpoint its clients; leave it out',
    })
  if (Object.hasOwn(raw, 'udpSpread'))
    for (const [name, beside] of [
      ['maglev', peek(raw, 'balance') === 'maglev'],
      ['affinity', Object.hasOwn(raw, 'affinity')],
    ] as const)
      if (beside)
        idle.push({
          name: 'udpSpread',
          message: `does nothing with ${name}, which gives each client its endpoint; leave one out`,
        })
  for (const name of queuesNothing(raw)) {
    idle.push({
      name,
      message: `does nothing without ${nameOf('maxConnections')}; give that, too`,
    })
  }
  return idle
}
