import t from 'tap'
import {
  controlTargets,
  parseControlOptions,
  settingOf,
} from '../../../bench/control/options.ts'
import {
  measureSyncs,
  syncScenarios,
  type SyncWish,
} from '../../../bench/control/sync.ts'
import { goalsOfScenario } from '../../../bench/record/findings.ts'
import { skip } from '../../kernel/connect-time/group.ts'

const name = 'connect-time'
const options = parseControlOptions([`--only=${name}`, '--mode-services=20000'])
const targets = controlTargets(options)
const wish: SyncWish = {
  part: name,
  services: 20_000,
  endpoints: 2,
  changes: 100,
  stream: { seconds: 0, perSecond: 1, minSyncMs: 0 },
}

t.test('it is a part of its own', async t => {
  t.same(
    targets.map(one => one.name),
    [name],
  )
  t.match(settingOf(options), [['Connect time', /^20000 Services of 2 endpoints/]])
})

const cost = {
  wallMs: 900,
  waitedMs: 0,
  cpuMs: 400,
  toolCpuMs: 0,
  toolMs: 0,
  lines: 0,
  tools: 0,
  peakRssBytes: 0,
  work: 'partial',
  seenMs: 2,
  kernelBytes: 31e6,
} as const

t.test('figures are held to goals at 20,000 Services of two endpoints', async t => {
  const endpoint = Array.from({ length: 100 }, (_, i) =>
    i < 98 ? cost : { ...cost, seenMs: 6 },
  )
  const found = {
    name,
    costs: { first: [cost], endpoint },
    dead: { connects: 1000, failed: 5, seconds: 1 },
    reason: '',
  }
  const goals = syncScenarios(wish, [found]).flatMap(one =>
    goalsOfScenario({ targets }, one),
  )
  t.same(
    goals.map(({ goal, value, verdict }) => [goal.metric, value, verdict]),
    [
      ['cpu', 400, 'reached'],
      ['memory', 31, 'MISSED'],
      ['seen p99', 6, 'MISSED'],
      ['failed', 0.5, 'reached'],
    ],
  )
  const few = syncScenarios({ ...wish, services: 1000 }, [found])
  t.ok(few.every(one => one.goals.length === 0))
})

t.test('what keeps it from being measured is told once', async t => {
  const none = { name, reason: 'no cgroups' }
  const leftOut = syncScenarios(wish, [none]).flatMap(one => one.leftOut)
  t.same(leftOut, [{ name, why: 'no cgroups' }])
})

t.test('its own connects are led', { skip }, async t => {
  const few = { ...wish, services: 50, changes: 10 }
  const [found] = await measureSyncs([name], few, () => {}, new AbortController().signal)
  t.equal(found?.reason, '')
  const { first: [first] = [], endpoint = [] } = found?.costs ?? {}
  t.ok((first?.kernelBytes ?? 0) > 1e6)
  t.equal(endpoint.length, 10)
  t.ok(endpoint.every(({ seenMs = 0, wallMs }) => seenMs > wallMs))
  t.ok((found?.dead?.failed ?? 0) > 0)
})
