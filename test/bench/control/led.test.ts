import t from 'tap'
import { ledName, ledScenarios, measureLed } from '../../../bench/control/led.ts'
import {
  controlTargets,
  parseControlOptions,
  settingOf,
} from '../../../bench/control/options.ts'
import { goalsOfScenario } from '../../../bench/record/findings.ts'
import { skip } from '../../kernel/connect-time/group.ts'

const options = parseControlOptions(['--only=connect-time', '--mode-services=20000'])
const targets = controlTargets(options)

t.test('it is a part of its own', async t => {
  t.same(
    targets.map(({ name }) => name),
    [ledName],
  )
  t.match(settingOf(options), [['Connect time', /^20000 Services of 2 endpoints/]])
})

t.test('figures are held to goals at 20,000 Services of two endpoints', async t => {
  const figures = {
    rounds: [
      {
        first: { wallMs: 900, cpuMs: 400, kernelBytes: 31e6 },
        changes: { writtenMs: [1, 2], seenMs: [2, 6] },
        dead: { connects: 1000, failed: 5, seconds: 1 },
      },
    ],
    reason: '',
  }
  const wish = { services: 20_000, endpoints: 2, changes: 2 }
  const goals = ledScenarios(wish, figures).flatMap(one =>
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
  const few = ledScenarios({ ...wish, services: 1000 }, figures)
  t.ok(few.every(one => one.goals.length === 0))
})

t.test('what keeps it from being measured is told once', async t => {
  const none = { rounds: [], reason: 'no cgroups' }
  const wish = { services: 10, endpoints: 2, changes: 2 }
  const leftOut = ledScenarios(wish, none).flatMap(one => one.leftOut)
  t.same(leftOut, [{ name: ledName, why: 'no cgroups' }])
})

t.test('its own connects are led', { skip }, async t => {
  const wish = { services: 50, endpoints: 2, changes: 10 }
  const end = new AbortController()
  // As soon as it says that a round begins: there is no second one.
  const say = (): void => end.abort()
  const { reason, rounds } = await measureLed(wish, say, end.signal)
  t.equal(reason, '')
  const [{ first, changes, dead } = {}] = rounds
  t.match(first, { kernelBytes: Number })
  t.ok((first?.kernelBytes ?? 0) > 1e6)
  t.equal(changes?.seenMs.length, 10)
  t.ok((dead?.failed ?? 0) > 0)
})
