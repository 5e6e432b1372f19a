import { setTimeout as sleep } from 'node:timers/promises'
import { higher } from '../record/record.ts'
import {
  failedShare,
  milliseconds,
  neverFails,
  percent,
  relays,
  sampleOf,
  timesOf,
} from './metrics.ts'
import { notGivenReason, type Run, type Scenario } from './scenario.ts'
import type { Endpoint } from '../services.ts'

/* When backends fail or change. */

const path = '/64'
const timeoutMs = 5000

const visitsPerSecond = 200

/** For compiled code, which would be booked on the one that is measured first. */
const warmUpSeconds = 0.5

const visits = (run: Run, service: string, seconds?: number) =>
  run.load(
    {
      kind: 'paced-connections',
      to: run.to(service),
      path,
      perSecond: visitsPerSecond,
      timeoutMs,
      // What the first ones teach a proxy about its endpoints is part of what is measured.
      fromTheFirst: true,
    },
    seconds,
  )

export const retry: Scenario = {
  name: 'retry',
  group: 'failure',
  title: 'six backends: two serve, three refuse, one is silent',
  about: `${visitsPerSecond} new connections a second, counted from the first that the proxy gets for that Service. Failed are those without a whole answer in ${timeoutMs / 1000} s. Added latency is beside the same process and a Service with only the two that serve, just before. No target checks health actively: what counts is what becomes of a connection that meets a dead backend. A kernel mode can not try another one: its failures are what a relay is there for.`,
  metrics: [
    percent('failed', 'Failed'),
    milliseconds('added p50', 'Added p50'),
    milliseconds('added p99', 'Added p99'),
  ],
  goals: neverFails(...relays),
  quick: true,
  fresh: true,
  mostRounds: 3,
  services: ({ endpoints, refusing, silent }) => [
    { name: 'healthy', protocol: 'TCP', endpoints: endpoints('http') },
    {
      name: 'degraded',
      protocol: 'TCP',
      endpoints: [...endpoints('http'), ...refusing(3), silent],
    },
  ],
  // Waiting for the other would tell the proxy beforehand which endpoints are dead.
  awaited: ['healthy'],
  leavesOut: target =>
    target.kind === 'direct'
      ? 'a client that dials an endpoint itself has no other'
      : notGivenReason(target),
  expectedSeconds: window => 2 * window + 2.5,
  run: async run => {
    await visits(run, 'healthy', warmUpSeconds)
    const healthy = await visits(run, 'healthy')
    const degraded = await visits(run, 'degraded')
    const { latency } = degraded
    const added =
      latency && healthy.latency
        ? {
            'added p50': latency.p50 - healthy.latency.p50,
            'added p99': latency.p99 - healthy.latency.p99,
          }
        : {}
    return sampleOf(degraded, { failed: failedShare(degraded), ...added })
  },
}

const changesPerSecond = 20
const connectionsPerSecond = 500

/** Changes the endpoints again and again until told to stop; gives how often it did. */
const startChanging = ({ running, backends }: Run) => {
  const all = backends.endpoints('http')
  const sets: readonly (readonly Endpoint[])[] = [all, all.slice(0, 1), all, all.slice(1)]
  const stopped = new AbortController()
  let changes = 0
  const change = async (): Promise<void> => {
    const startedAt = performance.now()
    while (!stopped.signal.aborted) {
      changes += 1
      await running.setEndpoints?.('http', sets[changes % sets.length] ?? all)
      const due = startedAt + (changes * 1000) / changesPerSecond
      // A change that took long is not made up for: changes at once are one.
      await sleep(Math.max(5, due - performance.now()))
    }
  }
  const ended = change()
  // It is waited for at the end only, and may fail before.
  ended.catch(() => undefined)
  return async (): Promise<number> => {
    stopped.abort()
    await ended
    return changes
  }
}

export const churn: Scenario = {
  name: 'churn',
  group: 'failure',
  title: `endpoints that change ${changesPerSecond} times a second`,
  about: `One of two endpoints goes or comes back, while ${connectionsPerSecond} connections a second are made. Both keep serving: none needs to fail. Changes are counted as they are told to the proxy; one that takes longer over them may carry out several as one.`,
  metrics: [
    percent('failed', 'Failed'),
    milliseconds('p50', 'Answer p50'),
    milliseconds('p99', 'Answer p99'),
    higher('changes', 'Changes told', '/s', 1),
  ],
  goals: neverFails(
    ...relays,
    'usher-mode-nftables',
    'usher-mode-iptables',
    'usher-mode-ipvs',
  ),
  services: ({ endpoints }) => [
    { name: 'http', protocol: 'TCP', endpoints: endpoints('http') },
  ],
  fresh: true,
  mostRounds: 3,
  leavesOut: target =>
    target.kind === 'direct' || target.kind === 'floor'
      ? 'its endpoints are fixed'
      : notGivenReason(target),
  expectedSeconds: window => window + 2,
  run: async run => {
    const stop = startChanging(run)
    const startedAt = performance.now()
    try {
      const visited = { to: run.to('http'), path, perSecond: connectionsPerSecond }
      const answer = await run.load({ kind: 'paced-connections', ...visited, timeoutMs })
      const changes = await stop()
      return sampleOf(answer, {
        failed: failedShare(answer),
        ...timesOf(answer.latency, ['p50', 'p99']),
        changes: changes / ((performance.now() - startedAt) / 1000),
      })
    } finally {
      await stop()
    }
  },
}
