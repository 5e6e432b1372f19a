import { direct } from './direct.ts'
import { checkingHaproxy, haproxyTarget, loggedHaproxy } from './haproxy.ts'
import { nginxTarget } from './nginx.ts'
import { pipe } from './pipe.ts'
import { loggedSidecar, sidecarTarget } from './sidecar.ts'
import type { Target } from './target.ts'
import { connectTimeTarget, usherModeTarget, usherTarget } from './usher.ts'

/** Where a variant tells more than its siblings. */
const where = {
  /** Rules cost connections, not bytes: these scenarios tell what a capture costs. */
  rules: 'requests-32 connections first',
  /** A second thread has something to do that the first one can't. */
  threads: 'requests-32 requests-256 connections download-8 udp-64-64',
  /** `usher` takes the Linux relay with a thread for each core: elsewhere its siblings tell. */
  byDefault:
    'requests-32 connections download-1 latency-50 idle udp-64-16 retry churn first',
  /** More than beside one more number of streams or flows. */
  portable:
    'requests connections download-1 upload-1 download-8 latency-50 mixed idle udp-64-16 udp-64-64 udp-1400-64 failure first-1 first-1000',
  /** The least that a relay costs for what it carries: it has nothing else. */
  pipe: 'requests-1 requests-32 requests-256 requests-32-16k connections download-1 upload-1 both-1 download-8 latency-50 udp-64-16 udp-64-64 udp-1400-64',
  /** Only bulk shows whether bytes are spliced or copied, and who is beside it. */
  splicing: 'download-1 upload-1 mixed',
  /** What a connect costs, and that nothing of it is left in the way afterwards. */
  connectTime:
    'requests-1 requests-32 connections download-1 upload-1 udp-64-16 udp-64-16-unconnected first',
}

const mainly = (which: keyof typeof where) => ({ mainlyFor: where[which].split(' ') })

const listen = { capture: 'listen' } as const

/**
 * All that the bench can start itself, in the order of a report. Of Usher's the first is the one
 * that is in everything: pictures are of it.
 */
export const allTargets: readonly Target[] = [
  direct,
  usherTarget({ ...listen, name: 'usher-linux', relay: { linuxWorkers: 1 } }),
  usherTarget({ ...listen, name: 'usher', ...mainly('byDefault') }),
  usherTarget({
    ...listen,
    name: 'usher-linux-2',
    relay: { linuxWorkers: 2 },
    ...mainly('threads'),
  }),
  usherTarget({
    ...listen,
    name: 'usher-portable',
    relay: 'portable',
    ...mainly('portable'),
  }),
  usherTarget({ name: 'usher-nftables', capture: 'nftables', ...mainly('rules') }),
  usherTarget({ name: 'usher-iptables', capture: 'iptables', ...mainly('rules') }),
  usherTarget({ name: 'usher-local', capture: 'local', ...mainly('rules') }),
  sidecarTarget({ name: 'sidecar' }),
  sidecarTarget({ name: 'sidecar-passive', passive: true }),
  sidecarTarget({ name: 'sidecar-hold', holds: true }),
  sidecarTarget({ name: 'sidecar-4', workers: 4 }),
  sidecarTarget({ name: 'sidecar-lists', denied: 100_000 }),
  usherModeTarget('nftables'),
  usherModeTarget('iptables'),
  usherModeTarget('ipvs'),
  connectTimeTarget(mainly('connectTime')),
  connectTimeTarget({ beside: 'local', ...mainly('connectTime') }),
  connectTimeTarget({ beside: 'nftables', ...mainly('connectTime') }),
  haproxyTarget(),
  haproxyTarget({ copies: true, ...mainly('splicing') }),
  checkingHaproxy(),
  checkingHaproxy({ onlyByTcp: true }),
  nginxTarget(),
  { ...pipe, ...mainly('pipe') },
  loggedSidecar('file'),
  loggedHaproxy('file'),
  loggedSidecar('syslog'),
  loggedHaproxy('syslog'),
]
