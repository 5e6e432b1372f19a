import t, { type Test } from 'tap'
import { answerLoad } from '../../../bench/load/answer.ts'
import { scenarios } from '../../../bench/scenarios/all.ts'
import type { Run } from '../../../bench/scenarios/scenario.ts'
import { postgresProblem } from '../../../bench/sidecar/postgres-program.ts'
import { lane, workDirectory } from '../targets/pods.ts'

/** What a scenario finds about clients that dial each of these of its servers, without any proxy. */
const measured = async (
  t: Test,
  name: string,
  seconds: number,
  ...places: readonly number[]
) => {
  const scenario = scenarios.find(one => one.name === name)
  const site = await scenario?.site?.(lane, await workDirectory(t))
  if (site === undefined) throw new Error(`there is no ${name} with servers of its own`)
  const [service] = site.services
  const load: Run['load'] = (traffic, window = seconds) =>
    answerLoad({ ...traffic, seconds: window, pids: { backend: [], proxy: [] } })
  const found: object[] = []
  try {
    for (const place of places) {
      const to: Run['to'] = () => service?.endpoints[place] ?? { address: '', port: 0 }
      const run: Pick<Run, 'seconds' | 'to' | 'load'> = { seconds, to, load }
      const { figures, errors } = await site.run(run as Run)
      found.push({ ...figures, errors })
    }
    return found
  } finally {
    await site.stop()
  }
}

const notLinux = process.platform !== 'linux' && '127.0.1.1 is not an address here'

t.test(
  'a server that closes early is seen, and one that answers',
  { skip: notLinux },
  async t => {
    const inBoth = ['early-close', 'early-close-asked'].map(async name => {
      const [closes, answers] = await measured(t, name, 0.01, 0, 1)
      t.match(closes, { failed: 100, errors: { ECONNRESET: Number } })
      t.match(answers, { failed: 0, errors: {} })
    })
    await Promise.all(inBoth)
  },
)

const noPostgres = postgresProblem() || notLinux

t.test('PostgreSQL', { skip: noPostgres }, async t => {
  const [[hangs], [restarts], [moves = {}]] = await Promise.all([
    measured(t, 'postgres-hangs', 0.06, 0),
    measured(t, 'postgres-restarts', 0.06, 0),
    measured(t, 'primary-moves', 0.12, 0),
  ])
  t.match(hangs, { errors: { timeout: Number } }, 'one that hangs')
  t.match(restarts, { errors: { ECONNREFUSED: Number } }, 'one that is gone')
  t.match(moves, { failed: 0, late: 0 }, 'an old primary')
  t.ok(Number(new Map(Object.entries(moves)).get('last')) > 0, moves)
})
