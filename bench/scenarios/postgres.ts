import { setTimeout as sleep } from 'node:timers/promises'
import type { Visit } from '../load/question.ts'
import { higher, lower } from '../record/record.ts'
import { milliseconds, neverFails, sampleOf, timesOf } from './metrics.ts'
import type { Run, Scenario } from './scenario.ts'
import {
  atFreePort,
  cared,
  failedClients,
  notDone,
  serversAt,
  sessions,
  sidecarScenario,
} from './sidecar.ts'
import type { BenchService, Care } from '../services.ts'
import { postgresProblem } from '../sidecar/postgres-program.ts'
import { type PostgresServer, startPostgres } from '../sidecar/postgres.ts'
import type { Lane } from '../topology/topology.ts'

/* Real PostgreSQL servers that fail, and a primary that moves. */

type PostgresSite = Awaited<ReturnType<typeof postgresSite>>

/** Three PostgreSQL servers, and others for what is asked beside them. */
const postgresSite = async (lane: Lane, workDir: string) => {
  // PostgreSQL has no answer for those who ask whether a target serves.
  const { servers: others, endpoints: checked } = await serversAt(
    lane,
    1,
    async (one, [at]) => at && one.listen('checked', at),
  )
  const ready: BenchService = { name: 'ready', protocol: 'TCP', endpoints: checked }
  try {
    const { endpoints, servers, stop } = await atFreePort(lane, 3, async at => ({
      endpoints: at,
      ...(await startPostgres(lane, at, workDir)),
    }))
    return {
      endpoints,
      servers,
      others,
      /** The service, and one that tells whether the target is there: it answers all clients. */
      servicesWith: (care: Care) => ({
        services: [...cared(endpoints, care), ready],
        awaited: [ready.name],
      }),
      stop: async (): Promise<void> => {
        await Promise.all([stop(), others.stop()])
      },
    }
  } catch (error) {
    await others.stop()
    throw error
  }
}

/** A third of them come to each server. */
const perSecond = 20
/** A run of a shorter window is of clients that are less patient. */
const mostPatienceMs = 5000
const patience = 2.5
/** Of windows of 2 s: 1 s before the failure, 15 s of it, 17 s in all. */
const [before, during, whole] = [0.5, 7.5, 8.5] as const

const load = `${perSecond} clients a second come, each for a short session (one query). One fails that has no answer in ${mostPatienceMs / 1000} s.`

/** One of three servers fails, while clients have short sessions. */
const failing = ({
  fail,
  ...own
}: Required<Pick<Scenario, 'name' | 'title' | 'about' | 'goals' | 'targets'>> & {
  readonly fail: (server: PostgresServer, ms: number) => Promise<void>
}): Scenario =>
  sidecarScenario({
    ...own,
    metrics: [
      failedClients,
      milliseconds('p99', 'Answer p99'),
      higher('tried', 'Sessions', '', 0),
    ],
    unsupportedReason: postgresProblem,
    expectedSeconds: window => 3 + whole * window,
    site: async (lane, workDir) => {
      const site = await postgresSite(lane, workDir)
      const [server] = site.servers
      if (server === undefined) throw new Error('there is no server')
      return {
        ...site.servicesWith({ check: 'postgres', replays: true }),
        run: run => whileFailing(run, ms => fail(server, ms)),
        stop: site.stop,
      }
    },
  })

const whileFailing = async (run: Run, fail: (ms: number) => Promise<void>) => {
  const windowMs = run.seconds * 1000
  const failure = async (): Promise<void> => {
    await sleep(before * windowMs)
    await fail(during * windowMs)
  }
  const timeoutMs = Math.min(mostPatienceMs, patience * windowMs)
  const clients = { speaks: 'postgres', clients: 0, pauseMs: 0, perSecond } as const
  const [answer] = await Promise.all([
    sessions(run, { ...clients, timeoutMs }, whole * run.seconds),
    failure(),
  ])
  return sampleOf(answer, {
    failed: notDone(answer),
    tried: answer.tried ?? answer.done,
    ...timesOf(answer.latency, ['p99']),
  })
}

const postgresHangs = failing({
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

const postgresRestarts = failing({
  name: 'postgres-restarts',
  title: 'one of three PostgreSQL servers is killed, and started again',
  about: `All of its processes are killed (SIGKILL), and it is started again 3 s later. ${load}`,
  goals: [
    { target: 'sidecar', metric: 'failed', atMost: 4 },
    ...neverFails('sidecar-hold'),
  ],
  targets: ['sidecar', 'sidecar-hold', 'haproxy-checks', 'nginx'],
  fail: async (server, ms) => {
    await server.kill()
    await sleep(ms / 5)
    await server.start()
  },
})

/** Few, so that hardly any is under way when the sessions at an old primary are reset. */
const clients = 2
const kept = 4
/** With a timeout above `hold`: those who wait are to be served. */
const sessionsPlan = { speaks: 'postgres', pauseMs: 150, timeoutMs: 20_000 } as const
/** By then no session may be at an old primary. */
const graceMs = 3000
/** Between the two, as while a replica is promoted. */
const withoutMs = 1000
/** Of windows of 2 s: until the first move, from one to the next, in all. */
const [first, between, wholeOfMoves, moves] = [1.5, 4.5, 10.5, 2] as const

const primaryMoves = sidecarScenario({
  name: 'primary-moves',
  title: 'the primary of three PostgreSQL servers moves',
  about: `A REST API as Patroni's says which server is the primary (GET /primary: 200 or 503); ${moves} times it moves, with none for ${withoutMs / 1000} s. Late are the sessions that were answered by an old primary ${graceMs / 1000} s after its API had said that it is none, of ${clients} clients with short sessions and ${kept} with long ones. Failed are short sessions without an answer, apart from those that were reset at the move: at the same time as the long ones, so that they were at the old primary.`,
  metrics: [
    lower('late', 'Late sessions', '', 0),
    milliseconds('last', 'Last answer of an old primary', 0),
    failedClients,
    lower('cut', 'Reset at the move', '', 0),
  ],
  goals: [
    { target: 'sidecar', metric: 'late', atMost: 0 },
    { target: 'sidecar-hold', metric: 'late', atMost: 0 },
    ...neverFails('sidecar-hold'),
  ],
  targets: ['sidecar', 'sidecar-hold', 'haproxy-checks'],
  unsupportedReason: postgresProblem,
  expectedSeconds: window => 4 + wholeOfMoves * window,
  site: async (lane, workDir) => {
    const site = await postgresSite(lane, workDir)
    try {
      // All addresses of one: none is left listening where another is taken.
      const port = await atFreePort(lane, 1, async ([at]) => {
        const everywhere = { address: '0.0.0.0', port: at?.port ?? 0 }
        await site.others.listen('checked', everywhere)
        return everywhere.port
      })
      await site.others.setPrimary(addressOf(site, 0))
      const role = { check: 'http', path: '/primary', port } as const
      return {
        ...site.servicesWith({ ...role, resets: true, replays: true }),
        run: run => whileMoving(run, site),
        stop: site.stop,
      }
    } catch (error) {
      await site.stop()
      throw error
    }
  },
})

const addressOf = ({ endpoints }: PostgresSite, turn: number): string =>
  endpoints[turn % endpoints.length]?.address ?? ''

/** A primary that is none any more, and since when (Unix time in milliseconds). */
interface Move {
  readonly old: string
  readonly at: number
}

const moving = async (site: PostgresSite, windowMs: number): Promise<readonly Move[]> => {
  const done: Move[] = []
  await sleep(first * windowMs)
  for (let turn = 1; turn <= moves; turn += 1) {
    await site.others.setPrimary('')
    done.push({ old: `server-${1 + ((turn - 1) % 3)}`, at: Date.now() })
    const gap = Math.min(withoutMs, windowMs / 2)
    await sleep(gap)
    await site.others.setPrimary(addressOf(site, turn))
    if (turn < moves) await sleep(between * windowMs - gap)
  }
  return done
}

const whileMoving = async (run: Run, site: PostgresSite) => {
  // Until the checks have found the primary.
  await sessions(run, { ...sessionsPlan, clients: 1, count: 5 })
  const plan = { ...sessionsPlan, clients, kept, tellsVisits: true } as const
  const [answer, moved] = await Promise.all([
    sessions(run, plan, wholeOfMoves * run.seconds),
    moving(site, run.seconds * 1000),
  ])
  const { visits = [], resetTogether = 0 } = answer
  const after = visits.flatMap(visit => sinceMove(visit, moved))
  const late = after.filter(({ ms }) => ms > graceMs)
  return sampleOf(answer, {
    late: new Set(late.map(({ session }) => session)).size,
    last: Math.max(0, ...after.map(({ ms }) => ms)),
    failed: notDone(answer) - resetTogether,
    cut: resetTogether,
  })
}

/** How long after the server's last end as the primary it answered, if it did. */
const sinceMove = ({ session, server, at }: Visit, moved: readonly Move[]) => {
  const last = moved.findLast(move => move.old === server && move.at < at)
  return last === undefined ? [] : [{ session, ms: at - last.at }]
}

export const postgresScenarios = [postgresHangs, postgresRestarts, primaryMoves]
