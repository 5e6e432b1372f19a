import t from 'tap'
import { parseControlOptions } from '../../../bench/control/options.ts'
import { controlTargets, settingOf } from '../../../bench/control/setting.ts'
import { Cluster, mostEndpoints } from '../../../bench/modes/cluster.ts'
import {
  courseOf,
  type ModeFigures,
  type ModeWish,
  type SyncCost,
  type SyncCosts,
} from '../../../bench/modes/measure.ts'
import { chooseProxiers, kubeProxyName } from '../../../bench/modes/proxiers.ts'
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
  toolCpuMs: 20,
  peakRssBytes: 140e6,
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

const noCosts: SyncCosts = {
  first: [],
  unchanged: [],
  endpoint: [],
  added: [],
  removed: [],
  full: [],
}

const targets = controlTargets(parseControlOptions(['--only', 'modes']))

const wishOf = (services: number, endpoints = 2): ModeWish => ({
  services,
  endpoints,
  changes: 100,
  stream: { seconds: 60, perSecond: 100, minSyncMs: 50 },
})

const reported = (services: number, found: readonly ModeFigures[]): string =>
  modeScenarios(wishOf(services), found)
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
  cluster.moveEndpoint(1)
  const after = cluster.snapshot().servicePorts
  const changed = [...after].filter(([key, port]) => before.get(key) !== port)
  t.equal(changed.length, 1)
  const [[key, port] = []] = changed
  t.same(port?.vips, before.get(key ?? '')?.vips)
  t.not(port?.endpoints[0]?.address, before.get(key ?? '')?.endpoints[0]?.address)
  t.same(port?.endpoints[1], before.get(key ?? '')?.endpoints[1])
})

t.test('Services have as many endpoints as asked for, all of them different', async t => {
  const cluster = new Cluster(2, mostEndpoints)
  cluster.moveEndpoint(1)
  const all = [...cluster.snapshot().servicePorts.values()].flatMap(one => one.endpoints)
  t.equal(new Set(all.map(({ address }) => address)).size, 2 * mostEndpoints)
})

t.test(
  'nftables mode is held to CPU time of all and to memory, others are not',
  async t => {
    const found = ['mode nftables', name, kubeProxyName].map(proxier => ({
      proxier,
      costs: { ...noCosts, first: [cost(5960, 'full')], endpoint: [cost(5)] },
      reason: '',
    }))
    const text = reported(20_000, found)
    t.match(text, 'goal: mode nftables CPU time of all <= 3000 ms: 3,000.00, reached')
    t.match(text, "goal: mode nftables A tool's memory <= 150 MB: 140.0, reached")
    t.match(text, 'goal: mode nftables Whole <= 30 ms: 45.00, MISSED')
    t.notMatch(text, `goal: ${name}`)
    t.notMatch(text, `goal: ${kubeProxyName}`)
  },
)

t.test('CPU times are means, as those of tools are known to 10 ms', async t => {
  const endpoint = [
    { ...cost(5), toolCpuMs: 0 },
    { ...cost(6), toolCpuMs: 10 },
  ]
  const found = { proxier: name, costs: { ...noCosts, endpoint }, reason: '' }
  const [scenario] = modeScenarios(wishOf(1000), [found])
  const [outcome] = scenario?.outcomes ?? []
  t.match(outcome, { sample: { figures: { 'cpu tool': 5, cpu: 2.75, 'cpu all': 7.75 } } })
})

t.test('a stream is told as times and as cores', async t => {
  const stream = {
    appliedMs: Array.from({ length: 200 }, (_, i) => i + 1),
    syncs: 40,
    wallMs: 2000,
    cpuMs: 200,
    toolCpuMs: 400,
  }
  const found = [{ proxier: 'mode nftables', stream, reason: '' }]
  const text = reported(10_000, found)
  t.match(text, /modes-stream-10000: 100 endpoint changes a second for 60 s/)
  t.match(text, /mode nftables +199\.0 +101\.0 +200\.0 +0\.300 +0\.100 +0\.200 +20\.0/)
  t.match(text, 'goal: mode nftables 99 of 100 <= 150 ms: 199.00, MISSED')
  t.match(text, 'goal: mode nftables CPU of all <= 0.5 cores: 0.3000, reached')
})

t.test("kube-proxy's layout is measured where that ends in time, or by name", async t => {
  t.ok(chooseProxiers([], 5000).includes(kubeProxyName))
  t.notOk(chooseProxiers([], 5001).includes(kubeProxyName))
  t.same(chooseProxiers(['kube-proxy'], 20_000), [kubeProxyName])
  t.same(chooseProxiers(['mode nftables', 'legacy'], 1), [
    'mode nftables',
    'mode iptables (legacy)',
  ])
})

t.test('lines are those that say something', async t => {
  t.equal(linesOf('# x\n*nat\n:A - [0:0]\n-A A -j B\n\nCOMMIT\n'), 4)
})

t.test('parts and numbers of the kernel modes are options', async t => {
  const options = parseControlOptions(['--only=modes', '--mode-services=10,20'])
  t.match(options, { only: 'modes', modeServices: [10, 20], modeChanges: 100 })
  t.match(options, {
    modeEndpoints: 2,
    modeStream: 60,
    modeMinSync: 1000,
    modeTargets: [],
  })
  t.match(settingOf(options), [['Kernel modes', /^10, 20 Services of 2 endpoints/]])
  t.throws(() => parseControlOptions(['--mode-endpoints=65']), /from 1 to 64/)
  t.throws(
    () => parseControlOptions(['--mode-targets=ipvs,nginx']),
    /--mode-targets nginx: want/,
  )
  t.throws(() => parseControlOptions(['--mode-services=1,x']), /--mode-services x/)
  t.throws(
    () => parseControlOptions(['--only=mode']),
    /want services or admin or rules or modes or connect-time/,
  )
})
