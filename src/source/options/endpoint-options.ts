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
    'TCP only; on by default. A connection that an endpoint accepts and closes before its first byte is retried at the next endpoint, as if it had been refused.',
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
    'TCP only; 0 by default, at most 64KiB. Replay buffer: if the client has sent no more than this, the connection can still be retried; the next endpoint gets the same bytes, so they may arrive twice. Use `4k` for TLS: a ClientHello with post-quantum keys takes 1.5 KiB and more.',
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
    "TCP only; off by default. How long an endpoint may take to send its first byte after the client has sent data. After that it has failed, as if it had closed early; if `replay` covers the client's bytes, they are sent to the next endpoint.",
    { protocol: 'TCP', at: ['retry', 'answerMs'], ...time },
  ),
  hold: option(
    durationText('0s', '24h', '30s'),
    'TCP only; 0s by default. How long a client waits, counted from its connect, while no endpoint can be connected to. Endpoints are retried every second or sooner.',
    {
      protocol: 'TCP',
      at: ['retry', 'holdMs'],
      read: msOf,
      show: ms => (ms === 0 ? undefined : time.show(ms)),
    },
  ),
  mostHeld: option(
    countOf('clients', 65_536, 256),
    'Maximum number of waiting clients; 256 by default. Further ones are reset.',
    { protocol: 'TCP', at: ['retry', 'mostHeld'] },
  ),
}

/** How long connections may be there. */
const ageOptions = {
  idleTimeout: option(
    durationText('1s', '168h', '1h'),
    'TCP only; `--tcp-idle-timeout` by default. Ends a connection, half-closed or not, after this long without data.',
    { protocol: 'TCP', at: ['ages', 'idleMs'], ...time },
  ),
  lifetime: option(
    durationText('1s', '168h', '24h'),
    'TCP only; none by default. Maximum age of a connection, less a random amount of up to a tenth. It is ended at its next quiet moment, at the latest 30 s later.',
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
      'Load-balancing policy; `round-robin` by default.',
      ...Object.entries(balancePolicies).flatMap(([name, { help }]) =>
        help === undefined ? [] : [`\`${name}\`: ${help}.`],
      ),
    ].join(' '),
    { example: 'least-connections', at: ['balance', 'by'] },
  ),
  slowStart: option(
    durationText('1s', '1h', '30s'),
    'Off by default. How long an endpoint that was down for 10 s or more, or that joins others, takes to ramp up from a tenth to its full share. Not with `maglev`.',
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
    'TCP only. Maximum number of connections per endpoint, over all workers. If all endpoints are full, clients wait.',
    { protocol: 'TCP', at: ['capacity', 'maxConnections'] },
  ),
  queue: option(
    durationText('0s', '1h', '5s'),
    'How long a client waits for a free connection slot, first come, first served; 5s by default. Then it is reset (cause `sQ`).',
    { protocol: 'TCP', needs: 'maxConnections', at: ['capacity', 'queueMs'], ...time },
  ),
  mostQueued: option(
    countOf('clients', 65_536, 1024),
    'Maximum number of clients waiting for a slot; 1024 by default. Further ones are reset.',
    { protocol: 'TCP', needs: 'maxConnections', at: ['capacity', 'mostQueued'] },
  ),
}

const mostCounted = 1_000_000

/** How many connections are taken. */
const limitOptions = {
  maxRouteConnections: option(
    countOf('connections', mostCounted, 1000),
    'TCP only; any number by default. Maximum number of open connections; further ones are reset.',
    { protocol: 'TCP', at: ['limits', 'routeConnections'] },
  ),
  maxRouteRate: option(
    countOf('connections a second', mostCounted, 200),
    'TCP only; any number by default. Maximum number of new connections per second, with bursts of the same size; others are reset.',
    { protocol: 'TCP', at: ['limits', 'routeRate'] },
  ),
  maxClientConnections: option(
    countOf('connections', mostCounted, 20),
    'TCP only; any number by default. Maximum number of open connections per client address.',
    { protocol: 'TCP', isByAddress: true, at: ['limits', 'clientConnections'] },
  ),
  maxClientRate: option(
    countOf('connections a second', mostCounted, 10),
    'TCP only; any number by default. Maximum number of new connections per second per client address.',
    { protocol: 'TCP', isByAddress: true, at: ['limits', 'clientRate'] },
  ),
}

/** How the flows of UDP clients are treated. */
const udpOptions = {
  udpIdleTimeout: option(
    durationText('1s', '168h', '5m'),
    'UDP only; `--udp-reply-timeout` before the first reply and `--udp-timeout` after it by default. Ends a flow after this long without a datagram, replacing both flags: the next datagram starts another. This is also how long an endpoint may take to send its first reply.',
    { protocol: 'UDP', at: ['udp', 'idleMs'], ...time },
  ),
  udpSpread: option(
    countOf('datagrams', 1_000_000, 1),
    'UDP only; off by default: a client stays at one endpoint. After this many datagrams from a client, its next ones go to the next endpoint, for one-way senders (syslog, statsd, NetFlow). Replies from all of them are forwarded. A client has one flow, and one descriptor, per endpoint. Not with `affinity` or `maglev`.',
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
    'Health check of each endpoint, every 2 s: `tcp`, `http://:8008/primary`, `postgres`, `redis` or `mysql`, or an object. An endpoint that is down gets no new connections; see below.',
    {
      example: 'http://:8008/primary',
      at: ['retry', 'check'],
      // A text has no password.
      decode: given => ({
        check: decodeCheck(given),
        retry: { check: typeof given === 'string' ? given : (given.type ?? 'expect') },
      }),
    },
  ),
  onDown: option(
    oneOf(['keep', 'reset']),
    'What happens to connections of an endpoint that goes down: they are kept, or reset. Use `reset` with a check for a role: the former primary still answers, but accepts no writes.',
    { example: 'reset', needs: 'check', decode: onDown => ({ onDown }) },
  ),
  whenAllDown: option(
    oneOf(['try', 'refuse']),
    'Which endpoints get new connections while the check finds all of them down: all of them, because one may work regardless (`try`), or none (`refuse`: clients are refused, or wait with `hold`). `refuse` is the default if the check asks for a role (`http`, `send` and `expect`, a Redis role), `try` otherwise.',
    { example: 'refuse', needs: 'check', decode: whenAllDown => ({ whenAllDown }) },
  ),
  onBack: option(
    oneOf(['keep', 'reset']),
    'TCP only. What happens to connections of a backup (an endpoint in a later tier or with weight 0) when a check finds an endpoint that precedes it up again: they are kept, which is the default, or reset.',
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
    "TCP only; off by default. Sends endpoints the client's address in a PROXY protocol header, v1 (text) or v2 (binary), before its first byte. They must expect it.",
    { example: 'v2', protocol: 'TCP', at: ['proxyProtocol'] },
  ),
  ...balanceOptions,
  ...capacityOptions,
  ...limitOptions,
  ...udpOptions,
  ...checkOptions,
}
