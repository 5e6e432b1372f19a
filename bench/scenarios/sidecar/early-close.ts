import { failedShare, milliseconds, percent, sampleOf } from '../metrics.ts'
import type { Run } from '../scenario.ts'
import { serversAt } from './free-port.ts'
import { cared, service, sidecarScenario } from './site.ts'

const sessions = 10_000
/** A run of a shorter window is a shorter run. */
const usualSeconds = 2
const clients = 16
const timeoutMs = 5000

const earlyClose = (name: string, speaks: 'hears first' | 'asks first') =>
  sidecarScenario({
    name,
    title:
      speaks === 'hears first'
        ? 'one of three servers closes at once; servers speak first'
        : 'one of three servers closes at once; clients speak first',
    about: `Of ${sessions.toLocaleString('en-US')} sessions, ${clients} at a time, those without an answer. One of three servers accepts each connection and ends it before it has said a byte, every other time by a reset, as one does that has no room or starts. It passes tcp checks.${speaks === 'asks first' ? ' Usher is told that what a client says first may be said to the next server again (replay).' : ''}`,
    metrics: [percent('failed', 'Failed'), milliseconds('p99', 'Answer p99')],
    goals: ['sidecar', 'sidecar-passive'].map(target => ({
      target,
      metric: 'failed',
      atMost: 0,
    })),
    targets: ['sidecar', 'sidecar-passive', 'haproxy-checks', 'nginx', 'pipe'],
    expectedSeconds: window => 2 + 3 * window,
    site: async lane => {
      const answers = speaks === 'hears first' ? 'greets' : 'answers'
      const { endpoints, servers } = await serversAt(lane, 3, (all, places) =>
        Promise.all(places.map((at, i) => all.listen(i === 0 ? 'closes' : answers, at))),
      )
      return {
        services: cared(endpoints, { check: 'tcp', replays: true }),
        run: run => visit(run, speaks),
        stop: servers.stop,
      }
    },
  })

const visit = async (run: Run, speaks: 'hears first' | 'asks first') => {
  const count = Math.ceil(sessions * Math.min(1, run.seconds / usualSeconds))
  const to = run.to(service)
  const about = { speaks, clients, pauseMs: 0, timeoutMs, count } as const
  const answer = await run.load({ kind: 'sessions', to, ...about })
  return sampleOf(answer, {
    failed: failedShare(answer),
    ...(answer.latency && { p99: answer.latency.p99 }),
  })
}

export const earlyCloseScenarios = [
  earlyClose('early-close', 'hears first'),
  earlyClose('early-close-asked', 'asks first'),
]
