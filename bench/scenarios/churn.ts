import { setTimeout as sleep } from 'node:timers/promises'
import type { Endpoint } from '../services.ts'
import { everyRelay, failedShare, milliseconds, percent, sampleOf } from './metrics.ts'
import { type Run, type Scenario, notGivenReason } from './scenario.ts'

const changesPerSecond = 20
const connectionsPerSecond = 500
const timeoutMs = 5000

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
    {
      name: 'changes',
      title: 'Changes told',
      unit: '/s',
      better: 'higher',
      decimals: 1,
    },
  ],
  goals: [
    ...everyRelay({ metric: 'failed', atMost: 0 }),
    { target: 'usher-mode-nftables', metric: 'failed', atMost: 0 },
    { target: 'usher-mode-iptables', metric: 'failed', atMost: 0 },
    { target: 'usher-mode-ipvs', metric: 'failed', atMost: 0 },
  ],
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
      const to = run.to('http')
      const answer = await run.load({
        kind: 'paced-connections',
        to,
        path: '/64',
        perSecond: connectionsPerSecond,
        timeoutMs,
      })
      const changes = await stop()
      const { latency } = answer
      return sampleOf(answer, {
        failed: failedShare(answer),
        ...(latency && { p50: latency.p50, p99: latency.p99 }),
        changes: changes / ((performance.now() - startedAt) / 1000),
      })
    } finally {
      await stop()
    }
  },
}
