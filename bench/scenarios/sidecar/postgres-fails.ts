import { setTimeout as sleep } from 'node:timers/promises'
import { postgresProblem } from '../../sidecar/postgres-program.ts'
import type { PostgresServer } from '../../sidecar/postgres.ts'
import type { Goal, Metric } from '../../record/record.ts'
import { milliseconds, sampleOf } from '../metrics.ts'
import type { Run } from '../scenario.ts'
import { failedClients, postgresSite, service, sidecarScenario } from './site.ts'

/** A third of them come to each server. */
const perSecond = 20
/** A run of a shorter window is of clients that are less patient. */
const mostPatienceMs = 5000
const patience = 2.5
/** Of windows of 2 s: 1 s before the failure, 15 s of it, 17 s in all. */
const [before, during, whole] = [0.5, 7.5, 8.5] as const

const tried: Metric = {
  name: 'tried',
  title: 'Sessions',
  unit: '',
  better: 'higher',
  decimals: 0,
}

/** One of three servers fails, while clients have short sessions. */
const failing = ({
  goals,
  fail,
  ...own
}: {
  readonly name: string
  readonly title: string
  readonly about: string
  readonly goals: readonly Goal[]
  readonly targets: readonly string[]
  readonly fail: (server: PostgresServer, ms: number) => Promise<void>
}) =>
  sidecarScenario({
    ...own,
    metrics: [failedClients, milliseconds('p99', 'Answer p99'), tried],
    goals,
    unsupportedReason: postgresProblem,
    expectedSeconds: window => 3 + whole * window,
    site: async (lane, workDir) => {
      const site = await postgresSite(lane, workDir)
      const [server] = site.servers
      if (server === undefined) throw new Error('there is no server')
      return {
        ...site.servicesWith({ check: 'postgres', replays: true }),
        run: run => measure(run, ms => fail(server, ms)),
        stop: site.stop,
      }
    },
  })

const measure = async (run: Run, fail: (ms: number) => Promise<void>) => {
  const failure = async (): Promise<void> => {
    await sleep(before * run.seconds * 1000)
    await fail(during * run.seconds * 1000)
  }
  const [answer] = await Promise.all([
    run.load(
      {
        kind: 'sessions',
        to: run.to(service),
        speaks: 'postgres',
        clients: 0,
        pauseMs: 0,
        perSecond,
        timeoutMs: Math.min(mostPatienceMs, patience * run.seconds * 1000),
      },
      whole * run.seconds,
    ),
    failure(),
  ])
  const { done, tried: sessions = done, latency } = answer
  return sampleOf(answer, {
    failed: sessions - done,
    tried: sessions,
    ...(latency && { p99: latency.p99 }),
  })
}

const load = `${perSecond} clients a second come, each for a short session (one query). One fails that has no answer in ${mostPatienceMs / 1000} s.`

export const postgresHangs = failing({
  name: 'postgres-hangs',
  title: 'one of three PostgreSQL servers hangs',
  about: `All of its processes are stopped for 15 s (SIGSTOP): the kernel goes on accepting connections. ${load}`,
  goals: [
    { target: 'sidecar', metric: 'failed', atMost: 5 },
    { target: 'sidecar-passive', metric: 'failed', atMost: 20 },
  ],
  targets: ['sidecar', 'sidecar-passive', 'haproxy-checks', 'haproxy-tcp-check', 'nginx'],
  fail: async (server, ms) => {
    server.freeze()
    await sleep(ms)
    server.thaw()
  },
})

export const postgresRestarts = failing({
  name: 'postgres-restarts',
  title: 'one of three PostgreSQL servers is killed, and started again',
  about: `All of its processes are killed (SIGKILL), and it is started again 3 s later. ${load}`,
  goals: [
    { target: 'sidecar', metric: 'failed', atMost: 4 },
    { target: 'sidecar-hold', metric: 'failed', atMost: 0 },
  ],
  targets: ['sidecar', 'sidecar-hold', 'haproxy-checks', 'nginx'],
  fail: async (server, ms) => {
    await server.kill()
    await sleep(ms / 5)
    await server.start()
  },
})
