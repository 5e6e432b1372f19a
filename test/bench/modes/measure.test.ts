import t from 'tap'
import { parseControlOptions } from '../../../bench/control/options.ts'
import { controlTargets, settingOf } from '../../../bench/control/setting.ts'
import { Cluster } from '../../../bench/modes/cluster.ts'
import {
  courseOf,
  type ModeFigures,
  type SyncCost,
} from '../../../bench/modes/measure.ts'
import { modeScenarios } from '../../../bench/modes/record.ts'
import { linesOf } from '../../../bench/modes/recorder.ts'
import { reportScenario } from '../../../bench/report/terminal.ts'

const name = 'mode iptables (nft)'

const cost = (own: number, work: SyncCost['work'] = 'partial'): SyncCost => ({
  wallMs: own + 40,
  waitedMs: 40,
  // By itself it was quicker.
  toolMs: 30,
  cpuMs: own / 2,
  lines: 16,
  tools: 1,
  work,
})

const figures = (endpoint: readonly number[], first = 900): readonly ModeFigures[] => [
  {
    proxier: name,
    costs: {
      first: [cost(first, 'full')],
      unchanged: [cost(0.5, 'nothing')],
      endpoint: endpoint.map(own => cost(own)),
      added: [cost(8)],
      removed: [cost(7)],
      full: [cost(800, 'full')],
    },
    reason: '',
  },
  { proxier: 'mode ipvs', reason: 'no ip_vs in this kernel' },
]

const targets = controlTargets(parseControlOptions(['--only', 'modes']))

const reported = (services: number, found: readonly ModeFigures[]): string =>
  modeScenarios(services, found)
    .flatMap(scenario => reportScenario(scenario, { targets, yardsticks: [] }))
    .join('\n')

t.test("a change's own time is the whole less that of the tools in it", async t => {
  const text = reported(1000, figures([5, 6, 7]))
  t.match(
    text,
    /modes-endpoint-1000: .*\n(?:.*\n)+? +mode iptables \(nft\) +6\.0 +5\.0\.\.7\.0/,
  )
  t.match(text, `${name}: 3 partial.`)
  t.notMatch(text, 'goal', 'goals are for 10 000 Services')
})

t.test(
  'a full sync is held to what the tools take alone, a change to its own time',
  async t => {
    const many = Array.from({ length: 100 }, (_, i) => (i < 98 ? 10 : 61))
    const text = reported(10_000, figures(many, 2991))
    t.match(text, `goal: ${name} Beyond the tools <= 3000 ms: 3,001.00, MISSED`)
    t.match(
      text,
      `goal: ${name} Beyond the tools <= 3000 ms: 810.00, reached`,
      'of a full one',
    )
    t.match(text, `goal: ${name} Usher's own <= 60 ms: 10.00, reached`)
    t.match(text, `goal: ${name} Usher's own p99 <= 60 ms: 61.00, MISSED`)
  },
)

t.test('a mode that can not be measured is left out by name, once', async t => {
  const text = reported(10_000, figures([1]))
  t.equal(text.split('left out: mode ipvs: no ip_vs in this kernel').length, 2)
})

t.test('every step is made, changes all over the Services, additions undone', async t => {
  const course = courseOf(1000, 4)
  t.same(course[0], ['first', 0])
  t.same(
    course.filter(([step]) => step === 'endpoint').map(([, i]) => i),
    [0, 250, 500, 750],
  )
  const added = course.filter(([step]) => step === 'added')
  t.same(
    course.filter(([step]) => step === 'removed').map(([, i]) => i),
    added.map(([, i]) => i),
  )
  t.ok(added.every(([, i]) => i >= 1000))
})

t.test('a change is of one Service, and the others stay the same objects', async t => {
  const cluster = new Cluster(3)
  const before = cluster.snapshot().servicePorts
  cluster.moveEndpoint(1, 1)
  const after = cluster.snapshot().servicePorts
  const changed = [...after].filter(([key, port]) => before.get(key) !== port)
  t.equal(changed.length, 1)
  const [[key, port] = []] = changed
  t.same(port?.vips, before.get(key ?? '')?.vips)
  t.not(port?.endpoints[0]?.address, before.get(key ?? '')?.endpoints[0]?.address)
  t.same(port?.endpoints[1], before.get(key ?? '')?.endpoints[1])
})

t.test('lines are those that say something', async t => {
  t.equal(linesOf('# x\n*nat\n:A - [0:0]\n-A A -j B\n\nCOMMIT\n'), 4)
})

t.test('parts and numbers of the kernel modes are options', async t => {
  const options = parseControlOptions(['--only=modes', '--mode-services=10,20'])
  t.match(options, { only: 'modes', modeServices: [10, 20], modeChanges: 100 })
  t.match(settingOf(options), [['Kernel modes', /^10, 20 Services/]])
  t.throws(() => parseControlOptions(['--mode-services=1,x']), /--mode-services x/)
  t.throws(() => parseControlOptions(['--only=mode']), /want services or rules or modes/)
})
