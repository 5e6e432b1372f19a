import * as v from 'valibot'
import { checkShape } from '../../health/check-option.ts'
import type { CheckEffects } from '../../model/service.ts'
import type {
  BalanceOptions,
  CapacityOptions,
  ConnectionAges,
  ConnectionLimits,
  RetryOptions,
  TrafficOptions,
} from '../../model/traffic.ts'
import { parseBytes } from '../../util/bytes.ts'
import { peek } from '../../util/json.ts'
import { proxyVersions } from '../../util/proxy-header.ts'
import { isNot, choice, countOf, durationText, msOf } from '../../util/schema.ts'
import type { Given } from './option-text.ts'

// The one definition of how clients and endpoints are treated: by the options of a route, and
// by the annotations of a Service. Only checks, as in decode/fields.ts.

const mostReplay = 64 * 1024

/** Bytes, `1k` for 1024; undefined where there are none, or too many. */
const readReplay = (given: string | number): number | undefined => {
  const size = parseBytes(String(given).replace(/k$/, 'KiB'))
  return size !== undefined && size <= mostReplay ? size : undefined
}

const replayForm = 'a number of bytes from 0 to 64KiB, like 1k or 4KiB'

/** What is done for clients of an endpoint that does not serve. */
const retryOptions = {
  retryEarlyClose: v.pipe(
    v.boolean(isNot('true or false')),
    v.description(
      'TCP only; on by default. A connection that an endpoint accepts and ends before it has said anything goes to the next endpoint, as if it had been refused.',
    ),
    v.examples([false]),
  ),
  replay: v.pipe(
    v.union([v.string(), v.number()], isNot(replayForm)),
    v.check(given => readReplay(given) !== undefined, isNot(replayForm)),
    v.metadata({ pattern: String.raw`^\d+(k|Ki|KiB|B)?$` }),
    v.description(
      'TCP only; 0 by default, at most 64KiB. A connection whose client has said no more than so many bytes is retried all the same, and the next endpoint is told them again: they may be heard twice. Give `4k` where clients begin with TLS: a ClientHello with post-quantum keys has 1.5 KiB and more.',
    ),
    v.examples(['1k']),
  ),
  answerWithin: v.pipe(
    // Shorter is within what a network loses; longer than any client waits.
    durationText('100ms', '60s', '2s'),
    v.description(
      'TCP only; off by default. How long an endpoint may take for its first byte after the client has spoken. One that takes longer has failed, as if it had closed early; where `replay` covers what the client has said, the next endpoint is told it.',
    ),
  ),
  hold: v.pipe(
    // A day: longer than any failover, and short enough for a number that is a mistake.
    durationText('0s', '24h', '30s'),
    v.description(
      'TCP only; 0s by default. How long a client waits for an endpoint to come back, counted from its connection, when none could be connected to. Endpoints are tried again every second or sooner.',
    ),
  ),
  mostHeld: v.pipe(
    countOf('clients', 65_536, 256),
    v.description(
      'How many clients wait at most; 256 by default. The next one is reset.',
    ),
  ),
}

/** Of options without faults. `earlyClose`: what holds where retryEarlyClose is not given. */
const decodeRetry = (
  raw: Given<typeof retryOptions> & { readonly check?: unknown },
  earlyClose: boolean,
): RetryOptions => ({
  earlyClose: raw.retryEarlyClose ?? earlyClose,
  replay: readReplay(raw.replay ?? 0) ?? 0,
  ...(raw.answerWithin !== undefined && { answerMs: msOf(raw.answerWithin) }),
  ...(raw.hold !== undefined && { holdMs: msOf(raw.hold) }),
  ...(raw.mostHeld !== undefined && { mostHeld: raw.mostHeld }),
  ...(raw.check !== undefined && { isChecked: true }),
})

/** Whether `replay` is asked for where nothing is retried. Of any object. */
const replaysNothing = (raw: object, earlyClose: boolean): boolean => {
  const replay = peek(raw, 'replay')
  const isReplayed =
    (typeof replay === 'string' || typeof replay === 'number') &&
    (readReplay(replay) ?? 0) > 0
  const retries =
    (peek(raw, 'retryEarlyClose') ?? earlyClose) !== false ||
    Object.hasOwn(raw, 'answerWithin')
  return isReplayed && !retries
}

/** How long connections may be there. */
const ageOptions = {
  idleTimeout: v.pipe(
    durationText('1s', '168h', '1h'),
    v.description(
      'TCP only; `--tcp-idle-timeout` by default. A connection in which no byte has moved for so long is ended, half-closed or not.',
    ),
  ),
  lifetime: v.pipe(
    durationText('1s', '168h', '24h'),
    v.description(
      'TCP only; none by default. How long a connection lasts, less up to a tenth of that, each its own. It is ended at its next quiet moment, at the latest 30 s after.',
    ),
  ),
}

/** Of options without faults; undefined where none is given. */
const decodeAges = ({
  idleTimeout,
  lifetime,
}: Given<typeof ageOptions>): ConnectionAges | undefined =>
  idleTimeout === undefined && lifetime === undefined
    ? undefined
    : { idleMs: msOf(idleTimeout), lifetimeMs: msOf(lifetime) }

/** Which endpoint a new connection goes to. */
const balanceOptions = {
  balance: choice(
    ['round-robin', 'least-connections', 'random', 'maglev'],
    'Which endpoint a new connection goes to; `round-robin` by default. `least-connections`: the one with the fewest connections of all workers. `maglev`: by the address of the client alone, the same on every node and after a restart.',
    'least-connections',
  ),
  slowStart: v.pipe(
    durationText('1s', '1h', '30s'),
    v.description(
      'Off by default. How long an endpoint that was down for 10 s or more, or is new beside others, takes to get its full share, beginning with a tenth. Not with `maglev`.',
    ),
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

/** Where `maxConnections` is given alone. */
const usualQueueMs = 5000
const usualMostQueued = 1024

/** How many connections each endpoint may have. */
const capacityOptions = {
  maxConnections: v.pipe(
    countOf('connections', 1_000_000, 80),
    v.description(
      'TCP only. How many connections each endpoint may have, over all workers. When all have so many, clients wait.',
    ),
  ),
  queue: v.pipe(
    durationText('0s', '1h', '5s'),
    v.description(
      'How long a client waits for a place at an endpoint, first come, first served; 5s by default. Then it is reset (cause `sQ`).',
    ),
  ),
  mostQueued: v.pipe(
    countOf('clients', 65_536, 1024),
    v.description(
      'How many clients wait for a place at most; 1024 by default. The next one is reset.',
    ),
  ),
}

/** Undefined where endpoints have no limit. */
const decodeCapacity = (
  raw: Given<typeof capacityOptions>,
): CapacityOptions | undefined => {
  const { maxConnections, queue, mostQueued = usualMostQueued } = raw
  if (maxConnections === undefined) return undefined
  return { maxConnections, queueMs: msOf(queue) ?? usualQueueMs, mostQueued }
}

const connections = (example: number, description: string) =>
  v.pipe(countOf('connections', 1_000_000, example), v.description(description))

const rate = (example: number, description: string) =>
  v.pipe(countOf('connections a second', 1_000_000, example), v.description(description))

/** How many connections are taken. */
const limitOptions = {
  maxRouteConnections: connections(
    1000,
    'TCP only; any number by default. How many connections are open at most; one that comes beyond that is reset.',
  ),
  maxRouteRate: rate(
    200,
    'TCP only; any number by default. How many connections may come in a second, as many of them at once; others are reset.',
  ),
  maxClientConnections: connections(
    20,
    'TCP only; any number by default. How many a client address may have open at most.',
  ),
  maxClientRate: rate(
    10,
    'TCP only; any number by default. How many may come from a client address in a second.',
  ),
}

/** Of options without faults; undefined where none is given. */
const decodeLimits = (raw: Given<typeof limitOptions>): ConnectionLimits | undefined => {
  const limits: ConnectionLimits = {
    routeConnections: raw.maxRouteConnections,
    routeRate: raw.maxRouteRate,
    clientConnections: raw.maxClientConnections,
    clientRate: raw.maxClientRate,
  }
  return Object.values(limits).every(limit => limit === undefined) ? undefined : limits
}

/** As a file of routes would have them. */
export const endpointOptions = {
  ...retryOptions,
  ...ageOptions,
  proxyProtocol: choice(
    proxyVersions,
    'TCP only; off by default. Endpoints are told who the client is by a header of the PROXY protocol, v1 (text) or v2 (binary), before its first byte. They have to expect it.',
    'v2',
  ),
  ...balanceOptions,
  ...capacityOptions,
  ...limitOptions,
  check: v.pipe(
    checkShape,
    v.description(
      'How each endpoint is checked, every 2 s: `tcp`, `http://:8008/primary`, `postgres`, `redis` or `mysql`, or an object. One that is down gets no new connections; see below.',
    ),
    v.examples(['http://:8008/primary']),
  ),
  onDown: choice(
    ['keep', 'reset'],
    'What becomes of the connections to an endpoint that goes down: they are kept, or reset. With a check for a role `reset` is what you want: the former primary answers, and takes no writes.',
    'reset',
  ),
  whenAllDown: choice(
    ['try', 'refuse'],
    'Which endpoints get new connections while a check finds all of them down: all, as one may serve all the same (`try`), or none (`refuse`: clients are refused, or wait with `hold`). `refuse` is the default where the check asks for a role: `http`, `send` and `expect`, a Redis role; `try` with the others.',
    'refuse',
  ),
  onBack: choice(
    ['keep', 'reset'],
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
})

/** The same of UDP options. */
export const decodeUdpTraffic = (
  raw: Given<Pick<typeof endpointOptions, 'balance' | 'slowStart'>>,
): TrafficOptions => ({ retry: udpRetry, balance: decodeBalance(raw) })

/** An endpoint that answers nothing has failed where others answer. */
const udpRetry = { earlyClose: false, replay: 0, expectsReplies: true }

type Option = keyof typeof endpointOptions

/** Options, when they do nothing beside the others, and what is said then. */
const idle: readonly {
  readonly names: readonly Option[]
  readonly when: (raw: object, earlyClose: boolean, name: Option) => boolean
  readonly message: (nameOf: (option: string) => string) => string
}[] = [
  {
    names: ['replay'],
    when: replaysNothing,
    message: nameOf =>
      `does nothing where ${nameOf('retryEarlyClose')} is off; leave it out, or switch that on`,
  },
  {
    names: ['onDown', 'whenAllDown', 'onBack'],
    when: raw => !Object.hasOwn(raw, 'check'),
    message: () => 'does nothing without check; give that, too',
  },
  {
    names: ['slowStart'],
    when: raw => peek(raw, 'balance') === 'maglev',
    message: () =>
      'does nothing with maglev, which gives each endpoint its clients; leave it out',
  },
  {
    names: ['queue', 'mostQueued'],
    when: (raw, _, name) =>
      v.is(endpointOptions[name], peek(raw, name)) &&
      !Object.hasOwn(raw, 'maxConnections'),
    message: nameOf => `does nothing without ${nameOf('maxConnections')}; give that, too`,
  },
]

/**
 * Options that do nothing beside the others. Of any object: what can't be read has its fault
 * already. `nameOf`: what an option is called where it was written.
 */
export const idleOptions = (
  raw: object,
  earlyClose: boolean,
  nameOf: (option: string) => string = option => option,
): readonly { readonly name: Option; readonly message: string }[] =>
  idle.flatMap(({ names, when, message }) =>
    names
      .filter(name => Object.hasOwn(raw, name) && when(raw, earlyClose, name))
      .map(name => ({ name, message: message(nameOf) })),
  )
