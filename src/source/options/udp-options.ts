import * as v from 'valibot'
import type { UdpOptions } from '../../model/traffic.ts'
import { countOf, durationText, msOf, type Given } from './option-kinds.ts'

/** How the flows of UDP clients are treated. */
export const udpOptions = {
  udpIdleTimeout: v.pipe(
    durationText(1000, 604_800_000, 'from 1s to 168h', '5m'),
    v.description(
      'UDP only; `--udp-reply-timeout` before the first reply and `--udp-timeout` after it by default. A flow without a datagram for so long ends, in place of both: the next datagram begins another. So long an endpoint may also take for its first reply.',
    ),
  ),
  udpSpread: v.pipe(
    countOf('datagrams', 1_000_000, 1),
    v.description(
      'UDP only; off by default: a client stays at one endpoint. After so many datagrams of a client its next ones go to the next endpoint, as of one-way senders (syslog, statsd, NetFlow). Replies of all of them come back. A client has a flow, and a descriptor, for each endpoint. Not with `affinity` or `maglev`.',
    ),
  ),
}

/** Of options without faults; undefined where none is given. */
export const decodeUdp = ({
  udpIdleTimeout,
  udpSpread,
}: Given<typeof udpOptions>): UdpOptions | undefined =>
  udpIdleTimeout === undefined && udpSpread === undefined
    ? undefined
    : { idleMs: msOf(udpIdleTimeout), spread: udpSpread }
