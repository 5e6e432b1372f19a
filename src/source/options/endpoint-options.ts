import * as v from 'valibot'
import { checkShape } from '../../health/check-option.ts'
import {
  balanceNames,
  balancePolicies,
  balancePolicyOf,
} from '../../model/balance-policies.ts'
import type { CheckEffects } from '../../model/service.ts'
import type {
  TrafficOptions,
  UdpOptions,
  ConnectionAges,
  ConnectionLimits,
  CapacityOptions,
  BalanceOptions,
} from '../../model/traffic.ts'
import { peek } from '../../util/printable.ts'
import { isNot, countOf, durationText, msOf } from '../../util/schema.ts'
import { proxyOptions } from './proxy-options.ts'
import { described, type Given } from './option-kinds.ts'
import { decodeRetry, replaysNothing, retryOptions } from './retry-options.ts'

/** Which endpoint a new connection goes to. */
const balanceOptions = {
  balance: described(
    v.picklist(
      balanceNames,
      isNot(
        `${balanceNames.slice(0, -1).join(', ')} or ${balanceNames.slice(-1).join('')}`,
      ),
    ),
    [
      'Which endpoint a new connection goes to; `round-robin` by default.',
      ...Object.entries(balancePolicies).flatMap(([name, { help }]) =>
        help === undefined ? [] : [`\`${name}\`: ${help}.`],
      ),
    ].join(' '),
    'least-connections',
  ),
  slowStart: described(
    durationText('1s', '1h', '30s'),
    'Off by default. How long an endpoint that was down for 10 s or more, or is new beside others, takes to get its full share, beginning with a tenth. Not with `maglev`.',
  ),
}

/** Undefined where nothing is asked for. */
const decodeBalance = (raw: Given<typeof balanceOptions>): BalanceOptions | undefined => {
  const { balance, slowStart } = raw
  if (balance === undefined && slowStart === undefined) return undefined
  return {
    by: balance ?? 'round-robin',
    ...(slowStart !== undefined && { slowStartMs: msOf(slowStart) }),
  }
}

/** How many connections each endpoint may have. */
export const capacityOptions = {
  maxConnections: described(
    countOf('connections', 1_000_000, 80),
    'TCP only. How many connections each endpoint may have, over all workers. When all have so many, clients wait.',
  ),
  queue: described(
    durationText('0s', '1h', '5s'),
    'How long a client waits for a place at an endpoint, first come, first served; 5s by default. Then it is reset (cause `sQ`).',
  ),
  mostQueued: described(
    countOf('clients', 65_536, 1024),
    'How many clients wait for a place at most; 1024 by default. The next one is reset.',
  ),
}

/** Undefined where endpoints have no limit. */
const decodeCapacity = (
  raw: Given<typeof capacityOptions>,
): CapacityOptions | undefined => {
  const { maxConnections, queue = '5s', mostQueued = 1024 } = raw
  if (maxConnections === undefined) return undefined
  return { maxConnections, queueMs: msOf(queue) ?? 0, mostQueued }
}

const mostCounted = 1_000_000

/** How many connections are taken. */
export const limitOptions = {
  maxRouteConnections: described(
    countOf('connections', mostCounted, 1000),
    'TCP only; any number by default. How many connections are open at most; one that comes beyond that is reset.',
  ),
  maxRouteRate: described(
    countOf('connections a second', mostCounted, 200),
    'TCP only; any number by default. How many connections may come in a second, as many of them at once; others are reset.',
  ),
  maxClientConnections: described(
    countOf('connections', mostCounted, 20),
    'TCP only; any number by default. How many a client address may have open at most.',
  ),
  maxClientRate: described(
    countOf('connections a second', mostCounted, 10),
    'TCP only; any number by default. How many may come from a client address in a second.',
  ),
}

const unlessEmpty = <T extends object>(options: T): T | undefined =>
  Object.values(options).every(one => one === undefined) ? undefined : options

const decodeLimits = (raw: Given<typeof limitOptions>): ConnectionLimits | undefined =>
  unlessEmpty({
    routeConnections: raw.maxRouteConnections,
    routeRate: raw.maxRouteRate,
    clientConnections: raw.maxClientConnections,
    clientRate: raw.maxClientRate,
  })

/** How long connections may be there. */
export const ageOptions = {
  idleTimeout: described(
    durationText('1s', '168h', '1h'),
    'TCP only; `--tcp-idle-timeout` by default. A connection in which no byte has moved for so long is ended, half-closed or not.',
  ),
  lifetime: described(
    durationText('1s', '168h', '24h'),
    'TCP only; none by default. How long a connection lasts, less up to a tenth of that, each its own. It is ended at its next quiet moment, at the latest 30 s after.',
  ),
}

const decodeAges = (raw: Given<typeof ageOptions>): ConnectionAges | undefined =>
  unlessEmpty({ idleMs: msOf(raw.idleTimeout), lifetimeMs: msOf(raw.lifetime) })

/** How the flows of UDP clients are treated. */
export const udpOptions = {
  udpIdleTimeout: described(
    durationText('1s', '168h', '5m'),
    'UDP only; `--udp-reply-timeout` before the first reply and `--udp-timeout` after it by default. A flow without a datagram for so long ends, in place of both: the next datagram begins another. So long an endpoint may also take for its first reply.',
  ),
  udpSpread: described(
    countOf('datagrams', 1_000_000, 1),
    'UDP only; off by default: a client stays at one endpoint. After so many datagrams of a client its next ones go to the next endpoint, as of one-way senders (syslog, statsd, NetFlow). Replies of all of them come back. A client has a flow, and a descriptor, for each endpoint. Not with `affinity` or `maglev`.',
  ),
}

const decodeUdp = (raw: Given<typeof udpOptions>): UdpOptions | undefined =>
  unlessEmpty({ idleMs: msOf(raw.udpIdleTimeout), spread: raw.udpSpread })

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
  check: described(
    checkShape,
    'How each endpoint is checked, every 2 s: `tcp`, `http://:8008/primary`, `postgres`, `redis` or `mysql`, or an object. One that is down gets no new connections; see below.',
    'http://:8008/primary',
  ),
  onDown: described(
    v.picklist(['keep', 'reset'], isNot('keep or reset')),
    'What becomes of the connections to an endpoint that goes down: they are kept, or reset. With a check for a role `reset` is what you want: the former primary answers, and takes no writes.',
    'reset',
  ),
  whenAllDown: described(
    v.picklist(['try', 'refuse'], isNot('try or refuse')),
    'Which endpoints get new connections while a check finds all of them down: all, as one may serve all the same (`try`), or none (`refuse`: clients are refused, or wait with `hold`). `refuse` is the default where the check asks for a role: `http`, `send` and `expect`, a Redis role; `try` with the others.',
    'refuse',
  ),
  onBack: described(
    v.picklist(['keep', 'reset'], isNot('keep or reset')),
    'TCP only. What becomes of the connections to a backup, an endpoint of a later tier or of weight 0, when a check finds one up again that goes before it: they are kept, which is the default, or reset.',
    'reset',
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
  // One-way senders get no replies.
  retry: raw.udpSpread === undefined ? udpRetry : undefined,
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
  const balance = peek(raw, 'balance')
  const { isByClient = false } = balancePolicyOf(balance) ?? {}
  if (Object.hasOwn(raw, 'slowStart') && isByClient)
    idle.push({
      name: 'slowStart',
      message: `does nothing with ${String(balance)}, which gives each endpoint its clients; leave it out`,
    })
  const isKept = isByClient || Object.hasOwn(raw, 'affinity')
  if (Object.hasOwn(raw, 'udpSpread') && isKept)
    idle.push({
      name: 'udpSpread',
      message:
        'does nothing with affinity or maglev, which give each client its endpoint; leave it out',
    })
  for (const name of ['queue', 'mostQueued'] as const)
    if (
      v.is(capacityOptions[name], peek(raw, name)) &&
      !Object.hasOwn(raw, 'maxConnections')
    )
      idle.push({
        name,
        message: `does nothing without ${nameOf('maxConnections')}; give that, too`,
      })
  return idle
}
