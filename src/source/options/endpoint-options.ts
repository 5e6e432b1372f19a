import * as v from 'valibot'
import { checkShape, decodeCheck } from '../../health/check-option.ts'
import {
  balanceNames,
  balancePolicies,
  balancePolicyOf,
} from '../../model/balance-policies.ts'
import { parseBytes } from '../../util/bytes.ts'
import { peek } from '../../util/printable.ts'
import { proxyVersions } from '../../util/proxy-header.ts'
import { isNot, countOf, durationText, msOf, oneOf } from '../../util/schema.ts'
import { option, shownAsIs, time, type Ways } from './option.ts'

const mostReplay = 64 * 1024

/** Bytes, `1k` for 1024; undefined where there are none, or too many. */
const readReplay = (given: unknown): number | undefined => {
  const size = parseBytes(String(given).replace(/k$/, 'KiB'))
  return size !== undefined && size <= mostReplay ? size : undefined
}

const replayForm = 'a number of bytes from 0 to 64KiB, like 1k or 4KiB'

/** `replay` is asked for where nothing is retried. */
const replaysNothing = (all: object, { nameOf, earlyClose }: Ways): string => {
  const retries =
    (peek(all, 'retryEarlyClose') ?? earlyClose) !== false ||
    Object.hasOwn(all, 'answerWithin')
  return retries || readReplay(peek(all, 'replay')) === 0
    ? ''
    : `does nothing where ${nameOf('retryEarlyClose')} is off; leave it out, or switch that on`
}

/** What is done for clients of an endpoint that does not serve. */
const retryOptions = {
  retryEarlyClose: option(
    v.boolean(isNot('true or false')),
    'TCP only; on by default. A connection that an endpoint accepts and ends before it has said anything goes to the next endpoint, as if it had been refused.',
    {
      example: false,
      protocol: 'TCP',
      at: ['retry', 'earlyClose'],
      // Of UDP it says nothing.
      show: (earlyClose, { retry }) =>
        earlyClose === false && retry?.expectsReplies !== true ? 'off' : undefined,
    },
  ),
  replay: option(
    v.pipe(
      v.union([v.string(), v.number()], isNot(replayForm)),
      v.check(given => readReplay(given) !== undefined, isNot(replayForm)),
      v.metadata({ pattern: String.raw`^\d+(k|Ki|KiB|B)?$` }),
    ),
    'TCP only; 0 by default, at most 64KiB. A connection whose client has said no more than so many bytes is retried all the same, and the next endpoint is told them again: they may be heard twice. Give `4k` where clients begin with TLS: a ClientHello with post-quantum keys has 1.5 KiB and more.',
    {
      example: '1k',
      protocol: 'TCP',
      idle: replaysNothing,
      at: ['retry', 'replay'],
      read: readReplay,
      show: bytes => (bytes === 0 ? undefined : shownAsIs(bytes)),
    },
  ),
  answerWithin: option(
    // Shorter is within what a network loses; longer than any client waits.
    durationText('100ms', '60s', '2s'),
    'TCP only; off by default. How long an endpoint may take for its first byte after the client has spoken. One that takes longer has failed, as if it had closed early; where `replay` covers what the client has said, the next endpoint is told it.',
    { protocol: 'TCP', at: ['retry', 'answerMs'], ...time },
  ),
  hold: option(
    durationText('0s', '24h', '30s'),
    'TCP only; 0s by default. How long a client waits for an endpoint to come back, counted from its connection, when none could be connected to. Endpoints are tried again every second or sooner.',
    {
      protocol: 'TCP',
      at: ['retry', 'holdMs'],
      read: msOf,
      show: ms => (ms === 0 ? undefined : time.show(ms)),
    },
  ),
  mostHeld: option(
    countOf('clients', 65_536, 256),
    'How many clients wait at most; 256 by default. The next one is reset.',
    { protocol: 'TCP', at: ['retry', 'mostHeld'] },
  ),
}

/** How long connections may be there. */
const ageOptions = {
  idleTimeout: option(
    durationText('1s', '168h', '1h'),
    'TCP only; `--tcp-idle-timeout` by default. A connection in which no byte has moved for so long is ended, half-closed or not.',
    { protocol: 'TCP', at: ['ages', 'idleMs'], ...time },
  ),
  lifetime: option(
    durationText('1s', '168h', '24h'),
    'TCP only; none by default. How long a connection lasts, less up to a tenth of that, each its own. It is ended at its next quiet moment, at the latest 30 s after.',
    { protocol: 'TCP', at: ['ages', 'lifetimeMs'], ...time },
  ),
}

/** Whether each client has its endpoint. */
const isByClient = (balance: unknown): boolean =>
  balancePolicyOf(balance)?.isByClient ?? false

/** Which endpoint a new connection goes to. */
const balanceOptions = {
  balance: option(
    oneOf(balanceNames),
    [
      'Which endpoint a new connection goes to; `round-robin` by default.',
      ...Object.entries(balancePolicies).flatMap(([name, { help }]) =>
        help === undefined ? [] : [`\`${name}\`: ${help}.`],
      ),
    ].join(' '),
    { example: 'least-connections', at: ['balance', 'by'] },
  ),
  slowStart: option(
    durationText('1s', '1h', '30s'),
    'Off by default. How long an endpoint that was down for 10 s or more, or is new beside others, takes to get its full share, beginning with a tenth. Not with `maglev`.',
    {
      idle: all =>
        isByClient(peek(all, 'balance'))
          ? `does nothing with ${String(peek(all, 'balance'))}, which gives each endpoint its clients; leave it out`
          : '',
      at: ['balance', 'slowStartMs'],
      ...time,
    },
  ),
}

/** How many connections each endpoint may have. */
const capacityOptions = {
  maxConnections: option(
    countOf('connections', 1_000_000, 80),
    'TCP only. How many connections each endpoint may have, over all workers. When all have so many, clients wait.',
    { protocol: 'TCP', at: ['capacity', 'maxConnections'] },
  ),
  queue: option(
    durationText('0s', '1h', '5s'),
    'How long a client waits for a place at an endpoint, first come, first served; 5s by default. Then it is reset (cause `sQ`).',
    { protocol: 'TCP', needs: 'maxConnections', at: ['capacity', 'queueMs'], ...time },
  ),
  mostQueued: option(
    countOf('clients', 65_536, 1024),
    'How many clients wait for a place at most; 1024 by default. The next one is reset.',
    { protocol: 'TCP', needs: 'maxConnections', at: ['capacity', 'mostQueued'] },
  ),
}

const mostCounted = 1_000_000

/** How many connections are taken. */
const limitOptions = {
  maxRouteConnections: option(
    countOf('connections', mostCounted, 1000),
    'TCP only; any number by default. How many connections are open at most; one that comes beyond that is reset.',
    { protocol: 'TCP', at: ['limits', 'routeConnections'] },
  ),
  maxRouteRate: option(
    countOf('connections a second', mostCounted, 200),
    'TCP only; any number by default. How many connections may come in a second, as many of them at once; others are reset.',
    { protocol: 'TCP', at: ['limits', 'routeRate'] },
  ),
  maxClientConnections: option(
    countOf('connections', mostCounted, 20),
    'TCP only; any number by default. How many a client address may have open at most.',
    { protocol: 'TCP', isByAddress: true, at: ['limits', 'clientConnections'] },
  ),
  maxClientRate: option(
    countOf('connections a second', mostCounted, 10),
    'TCP only; any number by default. How many may come from a client address in a second.',
    { protocol: 'TCP', isByAddress: true, at: ['limits', 'clientRate'] },
  ),
}

/** How the flows of UDP clients are treated. */
const udpOptions = {
  udpIdleTimeout: option(
    durationText('1s', '168h', '5m'),
    'UDP only; `--udp-reply-timeout` before the first reply and `--udp-timeout` after it by default. A flow without a datagram for so long ends, in place of both: the next datagram begins another. So long an endpoint may also take for its first reply.',
    { protocol: 'UDP', at: ['udp', 'idleMs'], ...time },
  ),
  udpSpread: option(
    countOf('datagrams', 1_000_000, 1),
    'UDP only; off by default: a client stays at one endpoint. After so many datagrams of a client its next ones go to the next endpoint, as of one-way senders (syslog, statsd, NetFlow). Replies of all of them come back. A client has a flow, and a descriptor, for each endpoint. Not with `affinity` or `maglev`.',
    {
      protocol: 'UDP',
      idle: all =>
        isByClient(peek(all, 'balance')) || Object.hasOwn(all, 'affinity')
          ? 'does nothing with affinity or maglev, which give each client its endpoint; leave it out'
          : '',
      at: ['udp', 'spread'],
    },
  ),
}

const checkOptions = {
  check: option(
    checkShape,
    'How each endpoint is checked, every 2 s: `tcp`, `http://:8008/primary`, `postgres`, `redis` or `mysql`, or an object. One that is down gets no new connections; see below.',
    {
      example: 'http://:8008/primary',
      decode: given => ({ check: decodeCheck(given), retry: { isChecked: true } }),
    },
  ),
  onDown: option(
    oneOf(['keep', 'reset']),
    'What becomes of the connections to an endpoint that goes down: they are kept, or reset. With a check for a role `reset` is what you want: the former primary answers, and takes no writes.',
    { example: 'reset', needs: 'check', decode: onDown => ({ onDown }) },
  ),
  whenAllDown: option(
    oneOf(['try', 'refuse']),
    'Which endpoints get new connections while a check finds all of them down: all, as one may serve all the same (`try`), or none (`refuse`: clients are refused, or wait with `hold`). `refuse` is the default where the check asks for a role: `http`, `send` and `expect`, a Redis role; `try` with the others.',
    { example: 'refuse', needs: 'check', decode: whenAllDown => ({ whenAllDown }) },
  ),
  onBack: option(
    oneOf(['keep', 'reset']),
    'TCP only. What becomes of the connections to a backup, an endpoint of a later tier or of weight 0, when a check finds one up again that goes before it: they are kept, which is the default, or reset.',
    { example: 'reset', protocol: 'TCP', needs: 'check', decode: onBack => ({ onBack }) },
  ),
}

/** How clients and endpoints are treated: by the options of a route, and by the annotations of a Service. */
export const endpointOptions = {
  ...retryOptions,
  ...ageOptions,
  /** What endpoints are told of their clients. */
  proxyProtocol: option(
    oneOf(proxyVersions),
    'TCP only; off by default. Endpoints are told who the client is by a header of the PROXY protocol, v1 (text) or v2 (binary), before its first byte. They have to expect it.',
    { example: 'v2', protocol: 'TCP', at: ['proxyProtocol'] },
  ),
  ...balanceOptions,
  ...capacityOptions,
  ...limitOptions,
  ...udpOptions,
  ...checkOptions,
}
