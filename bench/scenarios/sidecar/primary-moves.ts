import { setTimeout as sleep } from 'node:timers/promises'
import { postgresProblem } from '../../sidecar/postgres-program.ts'
import type { Visit } from '../../load/question.ts'
import { milliseconds, sampleOf } from '../metrics.ts'
import type { Run } from '../scenario.ts'
import { atFreePort } from './free-port.ts'
import {
  failedClients,
  type PostgresSite,
  postgresSite,
  service,
  sidecarScenario,
} from './site.ts'

/** Few, so that hardly any is under way when the sessions at an old primary are reset. */
const clients = 2
const pauseMs = 150
const kept = 4
/** Above `hold`: those who wait are to be served. */
const timeoutMs = 20_000
/** By then no session may be at an old primary. */
const graceMs = 3000
/** Between the two, as while a replica is promoted. */
const withoutMs = 1000
/** Of windows of 2 s: until the first move, from one to the next, in all. */
const [first, between, whole, moves] = [1.5, 4.5, 10.5, 2] as const

/** A primary that is none any more, and since when (Unix time in milliseconds). */
interface Move {
  readonly old: string
  readonly at: number
}

export const primaryMoves = sidecarScenario({
  name: 'primary-moves',
  title: 'the primary of three PostgreSQL servers moves',
  about: `A REST API as Patroni's says which server is the primary (GET /primary: 200 or 503); ${moves} times it moves, with none for ${withoutMs / 1000} s. Late are the sessions that were answered by an old primary ${graceMs / 1000} s after its API had said that it is none, of ${clients} clients with short sessions and ${kept} with long ones. Failed are short sessions without an answer, apart from those that were reset at the move: at the same time as the long ones, so that they were at the old primary.`,
  metrics: [
    {
      name: 'late',
      title: 'Late sessions',
      unit: '',
      better: 'lower',
      decimals: 0,
    },
    milliseconds('last', 'Last answer of an old primary', 0),
    failedClients,
    {
      name: 'cut',
      title: 'Reset at the move',
      unit: '',
      better: 'lower',
      decimals: 0,
    },
  ],
  goals: [
    { target: 'sidecar', metric: 'late', atMost: 0 },
    { target: 'sidecar-hold', metric: 'late', atMost: 0 },
    { target: 'sidecar-hold', metric: 'failed', atMost: 0 },
  ],
  targets: ['sidecar', 'sidecar-hold', 'haproxy-checks'],
  unsupportedReason: postgresProblem,
  expectedSeconds: window => 4 + whole * window,
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
        run: run => measure(run, site),
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

const measure = async (run: Run, site: PostgresSite) => {
  const to = run.to(service)
  const about = { speaks: 'postgres', pauseMs, timeoutMs } as const
  // Until the checks have found the primary.
  await run.load({ kind: 'sessions', to, ...about, clients: 1, count: 5 })
  const [answer, moved] = await Promise.all([
    run.load(
      { kind: 'sessions', to, ...about, clients, kept, tellsVisits: true },
      whole * run.seconds,
    ),
    moving(site, run.seconds * 1000),
  ])
  const { done, tried = done, visits = [], resetTogether = 0 } = answer
  const after = visits.flatMap(visit => sinceMove(visit, moved))
  const late = after.filter(({ ms }) => ms > graceMs)
  return sampleOf(answer, {
    late: new Set(late.map(({ session }) => session)).size,
    last: Math.max(0, ...after.map(({ ms }) => ms)),
    failed: tried - done - resetTogether,
    cut: resetTogether,
  })
}

/** How long after the server's last end as the primary it answered, if it did. */
const sinceMove = ({ session, server, at }: Visit, moved: readonly Move[]) => {
  const last = moved.findLast(move => move.old === server && move.at < at)
  return last === undefined ? [] : [{ session, ms: at - last.at }]
}
