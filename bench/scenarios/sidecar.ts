import { setTimeout as sleep } from 'node:timers/promises'
import pRetry from 'p-retry'
import { sumOfCounts } from '../load/load.ts'
import type { LoadAnswer, Traffics } from '../load/question.ts'
import { readUsage } from '../process/usage.ts'
import { lower } from '../record/record.ts'
import {
  failedShare,
  milliseconds,
  neverFails,
  percent,
  sampleOf,
  timesOf,
} from './metrics.ts'
import type { Run, Scenario, Site } from './scenario.ts'
import { connectionsScenario } from './traffic.ts'
import type { BenchService, Care, CheckKind, Endpoint } from '../services.ts'
import { type Behaviour, type Servers, startServers } from '../sidecar/servers.ts'
import { freePorts } from '../topology/probe.ts'
import type { Lane } from '../topology/topology.ts'

/* Beside an application, when its servers fail or change. */

/** What clients dial. */
const service = 'db'

/** Sessions that had no answer, or none in time. */
export const failedClients = lower('failed', 'Failed clients', '', 0)

/** Scenarios of the group are alike in this. */
export const sidecarScenario = (
  own: Omit<Scenario, 'group' | 'fresh' | 'mostRounds' | 'run'> &
    Required<Pick<Scenario, 'targets' | 'site'>>,
): Scenario => ({
  ...own,
  group: 'sidecar',
  fresh: true,
  mostRounds: 1,
  unsupportedReason: () =>
    process.platform === 'linux' ? (own.unsupportedReason?.() ?? '') : 'it needs Linux',
  run: () => Promise.reject(new Error('its servers were not started')),
})

/** One service. */
export const cared = (
  endpoints: readonly Endpoint[],
  care: Care,
): readonly BenchService[] => [{ name: service, protocol: 'TCP', endpoints, care }]

/** Has clients begin sessions with the service. */
export const sessions = (
  run: Run,
  plan: Omit<Traffics['sessions'], 'to'>,
  seconds?: number,
): Promise<LoadAnswer> =>
  run.load({ kind: 'sessions', to: run.to(service), ...plan }, seconds)

const retries = 4

/** By Node's words, or by those of a server's log. */
const isTaken = ({ error }: { readonly error: Error }): boolean =>
  /address already in use/i.test(error.message)

/**
 * Starts servers at so many addresses of the target's own node, all at one port. It was free
 * when it was looked for; where somebody has taken it before the servers listen, they get
 * another one, up to four times.
 * @param start - has to end what it started before it rejects
 */
export const atFreePort = <T>(
  lane: Lane,
  count: number,
  start: (at: readonly Endpoint[]) => Promise<T>,
): Promise<T> => {
  const once = async (): Promise<T> => {
    const [port = 0] = await freePorts(lane, '0.0.0.0', 1)
    return start(
      Array.from({ length: count }, (_, i) => ({
        address: `127.0.${1 + Math.floor(i / 250)}.${1 + (i % 250)}`,
        port,
      })),
    )
  }
  return pRetry(once, { retries, minTimeout: 0, shouldRetry: isTaken })
}

/** A process with servers at such addresses. Ended when `listen` rejects. */
export const serversAt = (
  lane: Lane,
  count: number,
  listen: (servers: Servers, at: readonly Endpoint[]) => Promise<unknown>,
): Promise<{ readonly endpoints: readonly Endpoint[]; readonly servers: Servers }> =>
  atFreePort(lane, count, async endpoints => {
    const servers = startServers(lane)
    try {
      await listen(servers, endpoints)
      return { endpoints, servers }
    } catch (error) {
      await servers.stop()
      throw error
    }
  })

/** A site of three servers of the bench's own. */
const threeServers =
  (
    behaviours: readonly [Behaviour, Behaviour, Behaviour],
    site: (endpoints: readonly Endpoint[], servers: Servers) => Omit<Site, 'stop'>,
  ) =>
  async (lane: Lane): Promise<Site> => {
    const { endpoints, servers } = await serversAt(lane, 3, (all, places) =>
      Promise.all(places.map((at, i) => all.listen(behaviours[i] ?? 'http', at))),
    )
    return { ...site(endpoints, servers), stop: () => servers.stop() }
  }

const manySessions = 10_000
/** A run of a shorter window is a shorter run. */
const usualSeconds = 2
const fewClients = 16

const earlyClose = (name: string, speaks: 'hears first' | 'asks first'): Scenario => {
  const answers = speaks === 'hears first' ? 'greets' : 'answers'
  return sidecarScenario({
    name,
    title: `one of three servers closes at once; ${speaks === 'hears first' ? 'servers' : 'clients'} speak first`,
    about: `Of ${manySessions.toLocaleString('en-US')} sessions, ${fewClients} at a time, those without an answer. One of three servers accepts each connection and ends it before it has said a byte, every other time by a reset, as one does that has no room or starts. It passes tcp checks.${speaks === 'asks first' ? ' Usher is told that what a client says first may be said to the next server again (replay).' : ''}`,
    metrics: [percent('failed', 'Failed'), milliseconds('p99', 'Answer p99')],
    goals: neverFails('sidecar', 'sidecar-passive'),
    targets: ['sidecar', 'sidecar-passive', 'haproxy-checks', 'nginx', 'pipe'],
    expectedSeconds: window => 2 + 3 * window,
    site: threeServers(['closes', answers, answers], endpoints => ({
      services: cared(endpoints, { check: 'tcp', replays: true }),
      run: async run => {
        const answer = await sessions(run, {
          speaks,
          clients: fewClients,
          pauseMs: 0,
          timeoutMs: 5000,
          count: Math.ceil(manySessions * Math.min(1, run.seconds / usualSeconds)),
        })
        return sampleOf(answer, {
          failed: failedShare(answer),
          ...timesOf(answer.latency, ['p99']),
        })
      },
    })),
  })
}

const asking = { speaks: 'asks first', pauseMs: 0, timeoutMs: 10_000 } as const

const unequalClients = 64

/** One server is ten times slower than two others, and each serves one client after another. */
const unequal = sidecarScenario({
  name: 'unequal',
  title: 'one of three servers is ten times slower; least connections',
  about: `${unequalClients} clients, each with one short session after another. Two servers take 2 ms for a client and one 20 ms, one client after another.`,
  metrics: [milliseconds('p99', 'Answer p99', 1), milliseconds('p50', 'Answer p50', 1)],
  goals: [{ target: 'sidecar', metric: 'p99', to: 'haproxy-checks', atMost: 1 }],
  targets: ['sidecar', 'sidecar-4', 'haproxy-checks'],
  expectedSeconds: window => 2 + window,
  site: threeServers(['slow', 'fast', 'fast'], endpoints => ({
    services: cared(endpoints, { check: 'none', leastConnections: true }),
    run: async run => {
      const answer = await sessions(run, { ...asking, clients: unequalClients })
      const { p99 = Infinity, p50 = Infinity } = answer.latency ?? {}
      return sampleOf(answer, { p99, p50 })
    },
  })),
})

const queuedClients = 500
const maxConnections = 80

/** More clients than the servers may have connections. */
const queued = sidecarScenario({
  name: 'queued',
  title: `${queuedClients} clients, three servers that may have ${maxConnections} connections each`,
  about: `Clients with one short session after another, each of which holds a server's connection for 20 ms. What waits for a place waits 5 s at most. Servers count what they have.`,
  metrics: [
    lower('beyond', `Connections beyond ${maxConnections}, the most at any`, '', 0),
    failedClients,
    milliseconds('p99', 'Answer p99', 0),
  ],
  goals: ['sidecar', 'sidecar-4'].flatMap(target =>
    ['beyond', 'failed'].map(metric => ({ target, metric, atMost: 0 })),
  ),
  targets: ['sidecar', 'sidecar-4', 'haproxy-checks'],
  expectedSeconds: window => 2 + window,
  site: threeServers(['holds', 'holds', 'holds'], (endpoints, servers) => ({
    services: cared(endpoints, { check: 'none', maxConnections }),
    run: async run => {
      const answer = await sessions(run, { ...asking, clients: queuedClients })
      return sampleOf(answer, {
        beyond: Math.max(0, (await servers.most()) - maxConnections),
        failed: notDone(answer),
        ...timesOf(answer.latency, ['p99']),
      })
    },
  })),
})

/** How many of those that were tried. */
export const notDone = ({ done, tried = done }: LoadAnswer): number => tried - done

const checkedEndpoints = 1000
/** First checks, and code that is compiled meanwhile, are not what goes on for days. */
const settleMs = 8000
/** Of windows of 2 s: each is checked so many times. */
const checkedWindows = 4

const checks = (check: CheckKind): Scenario =>
  sidecarScenario({
    name: `checks-${checkedEndpoints}${check === 'tcp' ? '' : `-${check}`}`,
    title: `${checkedEndpoints} endpoints checked by ${check}`,
    about:
      'What checks every 2 s take of a core, without any client. All endpoints are up.',
    metrics: [lower('share', 'CPU of the proxy', '% of a core', 2)],
    ...(check === 'tcp' && {
      goals: [{ target: 'sidecar', metric: 'share', atMost: 3 }],
    }),
    targets: ['sidecar', 'haproxy-checks'],
    expectedSeconds: window => 2 + settleMs / 1000 + checkedWindows * window,
    site: async lane => {
      const behaviour = check === 'postgres' ? 'postgres' : 'checked'
      const { endpoints, servers } = await serversAt(
        lane,
        checkedEndpoints,
        (all, [first]) =>
          all.listen(behaviour, { address: '0.0.0.0', port: first?.port ?? 0 }),
      )
      const services = cared(endpoints, { check })
      return { services, run: shareOfCore, stop: () => servers.stop() }
    },
  })

const shareOfCore = async (run: Run) => {
  await sleep(settleMs)
  const pids = run.running.pids()
  const before = readUsage(pids)?.cpuSeconds
  const startedAt = performance.now()
  await sleep(checkedWindows * run.seconds * 1000)
  const after = readUsage(pids)?.cpuSeconds
  if (before === undefined || after === undefined)
    throw new Error('CPU time is read from /proc: not here')
  const seconds = (performance.now() - startedAt) / 1000
  return { figures: { share: ((after - before) / seconds) * 100 }, errors: {} }
}

const routes = 500
const unchanged = 'route-0'
const changed = 'route-1'
/** Of windows of 2 s. */
const reloadedWindows = 5
const everyMs = 1000
const [connectionsPerSecond, requestsPerSecond] = [100, 200]

const reload = sidecarScenario({
  name: `reload-${routes}`,
  title: `a file of ${routes} routes that changes every ${everyMs / 1000} s`,
  about: `The endpoints of one route change and the file is read again, while another route, which stays as it is, has ${connectionsPerSecond} new connections a second and ${requestsPerSecond} requests a second on kept ones. The stall is the longest time from when a request was due to its answer. HAProxy's new process takes over from the old one (-sf), nginx has new workers.`,
  metrics: [
    milliseconds('stall', 'Longest stall', 1),
    failedClients,
    milliseconds('p99', 'Request p99'),
  ],
  goals: [...neverFails('sidecar'), { target: 'sidecar', metric: 'stall', atMost: 20 }],
  targets: ['sidecar', 'haproxy-checks', 'nginx'],
  expectedSeconds: window => 3 + reloadedWindows * window,
  site: threeServers(['http', 'http', 'http'], endpoints => ({
    services: Array.from({ length: routes }, (_, i) => ({
      name: `route-${i}`,
      protocol: 'TCP',
      endpoints,
    })),
    awaited: [unchanged, `route-${routes - 1}`],
    run: run => whileReloading(run, endpoints),
  })),
})

const whileReloading = async (run: Run, endpoints: readonly Endpoint[]) => {
  const seconds = reloadedWindows * run.seconds
  const reloading = async (): Promise<void> => {
    for (let turn = 0; turn * everyMs < seconds * 1000; turn += 1) {
      await run.running.setEndpoints?.(changed, endpoints.slice(turn % 2))
      await sleep(everyMs)
    }
  }
  const at = { to: run.to(unchanged), path: '/64' }
  const requests = { ...at, connections: 8, perSecond: requestsPerSecond }
  const visits = { ...at, perSecond: connectionsPerSecond, timeoutMs: 5000 }
  const [kept, fresh] = await Promise.all([
    run.load({ kind: 'open-loop', ...requests }, seconds),
    run.load({ kind: 'paced-connections', ...visits }, seconds),
    reloading(),
  ])
  return sampleOf(
    { ...kept, errors: sumOfCounts(kept.errors, fresh.errors) },
    {
      ...(kept.latency && { stall: kept.latency.max, p99: kept.latency.p99 }),
      failed: notDone(kept) + notDone(fresh),
    },
  )
}

/** What it costs to look a client up in long lists. */
const lists = connectionsScenario(title => ({
  name: 'lists',
  group: 'sidecar',
  title: `${title}; 100,000 ranges of clients are denied`,
  about:
    'New connections of clients that are looked up in a list of 100,000 ranges, beside those of a route without a list.',
  goals: [{ target: 'sidecar-lists', metric: 'rate', to: 'sidecar', atLeast: 0.97 }],
  targets: ['sidecar-lists', 'sidecar'],
}))

/** What a line for each connection costs, beside HAProxy with the same lines. */
const accessLog = (name: string, to: 'file' | 'syslog', how: string): Scenario => {
  const [own, theirs] = [`sidecar-log-${to}`, `haproxy-log-${to}`] as const
  return connectionsScenario(title => ({
    name,
    group: 'sidecar',
    title: `${title}; a line for each, to ${to}`,
    about: `New connections with an access log in the form of HAProxy's tcplog, ${how}.`,
    goals: [{ target: own, metric: 'rate', to: theirs, atLeast: 1 }],
    targets: [own, theirs],
  }))
}

export const earlyCloseScenarios = [
  earlyClose('early-close', 'hears first'),
  earlyClose('early-close-asked', 'asks first'),
]

export const sidecarScenarios: readonly Scenario[] = [
  reload,
  ...(['tcp', 'http', 'redis', 'postgres'] as const).map(checks),
  unequal,
  queued,
  lists,
  accessLog('access-log', 'file', 'to a file; HAProxy has one by its standard output'),
  accessLog(
    'access-log-syslog',
    'syslog',
    'a datagram for each to a syslog server on the same node',
  ),
]
