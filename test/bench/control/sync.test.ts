import t from 'tap'
import { Cluster, mostEndpoints } from '../../../bench/control/cluster.ts'
import {
  controlTargets,
  parseControlOptions,
  settingOf,
} from '../../../bench/control/options.ts'
import { chooseSubjects, kubeProxyName } from '../../../bench/control/subjects.ts'
import {
  courseOf,
  type SyncCost,
  type SyncFigures,
  syncScenarios,
  type SyncWish,
} from '../../../bench/control/sync.ts'
import { linesOf } from '../../../bench/control/tool-calls.ts'
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

const figures = (endpoint: readonly number[], first = 900): readonly SyncFigures[] => [
  {
    name,
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
  { name: 'mode ipvs', reason: 'no ip_vs in this kernel' },
]

const targets = controlTargets(parseControlOptions(['--only', 'modes']))

const wishOf = (services: number, endpoints = 2): SyncWish => ({
  part: 'modes',
  services,
  endpoints,
  changes: 100,
  stream: { seconds: 60, perSecond: 100, minSyncMs: 50 },
})

const reported = (services: number, found: readonly SyncFigures[]): string =>
  syncScenarios(wishOf(services), found)
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
  const course = courseOf({ part: 'modes', services: 1000 }, 4)
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
    const found = ['mode nftables', name, kubeProxyName].map(target => ({
      name: target,
      costs: { first: [cost(5960, 'full')], endpoint: [cost(5)] },
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
  const found = { name, costs: { endpoint }, reason: '' }
  const [scenario] = syncScenarios(wishOf(1000), [found])
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
  const found = [{ name: 'mode nftables', stream, reason: '' }]
  const text = reported(10_000, found)
  t.match(text, /modes-stream-10000: 100 endpoint changes a second for 60 s/)
  t.match(text, /mode nftables +199\.0 +101\.0 +200\.0 +0\.300 +0\.100 +0\.200 +20\.0/)
  t.match(text, 'goal: mode nftables 99 of 100 <= 150 ms: 199.00, MISSED')
  t.match(text, 'goal: mode nftables CPU of all <= 0.5 cores: 0.3000, reached')
})

t.test("kube-proxy's layout is measured where that ends in time, or by name", async t => {
  const chosen = (words: readonly string[], services: number) =>
    chooseSubjects('modes', words, services).map(one => one.name)
  t.ok(chosen([], 5000).includes(kubeProxyName))
  t.notOk(chosen([], 5001).includes(kubeProxyName))
  t.same(chosen(['kube-proxy'], 20_000), [kubeProxyName])
  t.same(chosen(['mode nftables', 'legacy'], 1), [
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

t.test('rules of captures', async t => {
  const costs = (...all: readonly number[]) =>
    all.map(wallMs => Object.assign(cost(0), { wallMs, waitedMs: 0 }))
  const found: readonly SyncFigures[] = [
    {
      name: 'nftables',
      costs: {
        first: costs(2001),
        unchanged: costs(0.5),
        endpoint: costs(0.7),
        added: costs(1, 2, 3, 4, 60),
        removed: costs(51, 52, 53),
      },
      reason: '',
    },
    { name: 'iptables (nft)', costs: { first: costs(4000) }, reason: '' },
    { name: 'local', reason: 'ip: not permitted' },
  ]
  const of = (services: number, all = found) =>
    syncScenarios({ ...wishOf(services, 1), part: 'rules' }, all)
  const rules = controlTargets(parseControlOptions(['--only', 'rules']))
  const reportedOf = (services: number): string =>
    of(services)
      .flatMap(scenario => reportScenario(scenario, { targets: rules, yardsticks: [] }))
      .join('\n')

  t.test('have goals at 10 000 VIPs, for the first sync and for a change', async t => {
    const text = reportedOf(10_000)
    t.match(text, 'goal: nftables Whole <= 2000 ms: 2,001.00, MISSED')
    t.match(text, 'goal: nftables Whole <= 50 ms: 3.00, reached')
    t.match(text, 'goal: nftables Whole <= 50 ms: 52.00, MISSED')
    t.match(text, 'goal: iptables (nft) Whole <= 4000 ms: 4,000.00, reached')
    t.notMatch(reportedOf(1000), 'goal')
  })

  t.test('that change several times are told by median and spread', async t =>
    t.match(reportedOf(1000), /nftables +3\.0 +1\.0\.\.60\.0/),
  )

  t.test('that could not be measured are left out by name, once', async t =>
    t.equal(reportedOf(1000).split('left out: local: ip: not permitted').length, 2),
  )

  t.test('of which none could be measured are a single scenario', async t =>
    t.same(
      of(1000, found.slice(2)).map(({ name: scenario }) => scenario),
      ['rules-first-1000'],
    ),
  )

  t.test('are never told that what is there was lost', async t =>
    t.notOk(
      courseOf({ part: 'rules', services: 10 }, 1).some(([step]) => step === 'full'),
    ),
  )
})
