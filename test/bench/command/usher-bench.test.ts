// A process of its own: long.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { comparisonOf, figuresOf } from '../../../bench/record/compare.ts'
import { errorsOf } from '../../../bench/record/findings.ts'
import { chooseSandbox } from '../../../bench/sandbox/sandbox.ts'
import { recordIn, startBench } from './run-bench.ts'
import { httpServer, slowProxy } from './servers.ts'
import { missingPrograms } from '../../support/installed.ts'

t.setTimeout(500_000)

const short = ['--loopback', '--rounds', '1', '--seconds', '0.2']

t.test('a run on loopback measures, and writes figures and a report', async t => {
  const scenarios = ['download-1', 'udp-64-16']
  const targets = ['direct', 'usher', 'pipe']
  const lists = [`--only=${scenarios.join()}`, `--targets=${targets.join()}`]
  const run = startBench(t, ...short, ...lists)
  const { code, stdout } = await run.ended
  t.equal(code, 0, stdout)
  const record = recordIn(run.output)
  t.equal(record.complete, true)
  t.strictSame(
    record.scenarios.map(({ name }) => name),
    scenarios,
  )
  t.strictSame(
    record.targets.map(({ name }) => name),
    targets,
  )
  for (const { outcomes } of record.scenarios)
    for (const outcome of outcomes)
      t.ok('sample' in outcome && (outcome.sample.figures['rate'] ?? 0) > 0, outcome)
  const html = readdirSync(run.output).find(name => name.endsWith('.html')) ?? ''
  t.match(readFileSync(join(run.output, html), 'utf8'), /<svg/)
  t.match(stdout, `Written: ${run.output}`)
})

const { why: noSandbox } = await chooseSandbox()
const noCaptures = missingPrograms('nft', 'iptables') || noSandbox
t.test(
  'every capture and kernel mode is measured, on a node of its own',
  { skip: noCaptures !== '' && noCaptures },
  async t => {
    const captures = ['usher-nftables', 'usher-iptables', 'usher-local']
    const targets = [...captures, 'usher-mode-nftables', 'usher-mode-iptables']
    const lists = ['--only=requests-1,udp-64-4', `--targets=${targets.join()}`]
    const run = startBench(t, '--rounds=1', '--seconds=0.2', ...lists)
    const { code, stdout } = await run.ended
    t.equal(code, 0, stdout)
    const record = recordIn(run.output)
    t.strictSame(record.leftOut, [])
    for (const scenario of record.scenarios)
      for (const name of targets) {
        const [metric] = scenario.metrics
        const [rate = 0] = metric ? figuresOf(scenario, name, metric) : []
        t.ok(rate > 0, `${scenario.name}, ${name}: ${rate} a second`)
        t.strictSame(errorsOf(scenario, name), new Map())
      }
  },
)

t.test('upgrades are measured, with few sessions', async t => {
  const targets = ['direct', 'sidecar', 'usher', 'haproxy', 'nginx']
  const lists = ['--only=upgrade', `--targets=${targets.join()}`]
  const how = ['--loopback', '--rounds=1', '--seconds=0.1']
  const run = startBench(t, ...how, ...lists)
  const { code, stdout } = await run.ended
  t.equal(code, 0, stdout)
  const record = recordIn(run.output)
  const [scenario] = record.scenarios
  if (scenario === undefined) throw new Error('nothing measured')
  for (const { name, kind } of record.targets) {
    const found = (metric: string) => {
      const described = scenario.metrics.find(one => one.name === metric)
      return described ? figuresOf(scenario, name, described) : []
    }
    t.equal(found('refused').length, 1, name)
    t.equal(found('gone').length, name === 'direct' ? 0 : 1, name)
    if (kind !== 'usher') continue
    t.strictSame(found('cut'), [0], name)
    t.equal(found('pause max').length, 1, name)
  }
})

t.test('a target that was slowed down on purpose is seen as slower', async t => {
  const backend = await httpServer(t)
  const slow = await slowProxy(t, backend, 1000)
  const quick = await slowProxy(t, backend, 0)
  // The quick one is seen as quicker even if it stands still for nearly all of a round.
  const how = ['--rounds=3', '--seconds=3', '--only=requests-1', '--targets=direct']
  const given = [
    `--backend=${backend}`,
    `--target=slow=${slow}`,
    `--target=quick=${quick}`,
  ]
  const run = startBench(t, ...how, ...given)
  const { code, stdout } = await run.ended
  t.equal(code, 0, stdout)
  const [scenario] = recordIn(run.output).scenarios
  const [metric] = scenario?.metrics ?? []
  if (scenario === undefined || metric === undefined) throw new Error('nothing measured')
  const rates = figuresOf(scenario, 'slow', metric)
  t.equal(rates.length, 3)
  // One request at a time, 1 s each.
  for (const rate of rates) t.ok(rate > 0 && rate <= 1, `${rate} a second`)
  t.match(comparisonOf(scenario, metric, 'slow', 'quick'), { verdict: 'worse' })
  t.match(stdout, /^ +slow +\d/m)
})

t.test('what can not be measured is left out by name, the rest goes on', async t => {
  const run = startBench(t, ...short, '--only=download-1', '--targets=direct,usher-local')
  const { code, stdout } = await run.ended
  t.equal(code, 0)
  t.match(stdout, /left out: usher-local: .*needs network namespaces/)
  t.match(recordIn(run.output).leftOut, [{ name: 'usher-local', why: /namespaces/ }])
})

t.test('what does not start is left out, and makes it a failure', async t => {
  const flags = ['--only=download-1', '--targets=direct', '--baseline', '/no/such/usher']
  const run = startBench(t, ...short, ...flags)
  const { code, stdout } = await run.ended
  t.equal(code, 1)
  t.match(stdout, /left out: baseline: .*ENOENT/)
  t.ok(recordIn(run.output).scenarios[0]?.outcomes.length)
})

t.test('with no target that can be measured it says so and writes nothing', async t => {
  const run = startBench(t, ...short, '--only=download-1', '--targets=usher-local')
  const { code, stderr } = await run.ended
  t.equal(code, 1)
  t.match(stderr, /^usher bench: no target is left: usher-local: /m)
  t.notMatch(stderr, /\n +at /)
  t.strictSame(readdirSync(run.output), [])
})

t.test('a wrong name is told before anything is started', async t => {
  const { code, stdout, stderr } = await startBench(t, '--only', 'request').ended
  t.equal(code, 2)
  t.match(stderr, /"request" is none of them; give requests, /)
  t.equal(stdout, '')
})

t.test('a place that can not be written is told before anything is measured', async t => {
  const file = join(t.testdir({ file: '' }), 'file')
  const run = startBench(t, ...short, '--output', join(file, 'results'))
  const { code, stdout, stderr } = await run.ended
  t.equal(code, 1)
  t.match(stderr, /^usher bench: --output .*file.results can't be written: .*; give /)
  t.equal(stdout, '')
})

t.test('reports are made anew from the figures of an earlier run', async t => {
  const first = startBench(t, ...short, '--only=download-1', '--targets=direct,pipe')
  await first.ended
  const json = readdirSync(first.output).find(name => name.endsWith('.json')) ?? ''
  const page = join(first.output, 'page.md')
  const again = startBench(t, '--from', join(first.output, json), '--markdown', page)
  const { code, stdout } = await again.ended
  t.equal(code, 0)
  t.match(stdout, /download-1/)
  t.match(readFileSync(page, 'utf8'), /page\/.*\.svg/)
  t.ok(readdirSync(join(first.output, 'page')).includes('figures.json'))
})

const others = [
  { what: 'a directory', name: 'folder', words: 'it is a directory' },
  { what: 'a file of something else', name: 'binary', words: 'not JSON' },
  { what: 'a file that is not there', name: 'nothing', words: 'ENOENT' },
]
for (const { what, name, words } of others)
  t.test(`--from ${what} is refused in words`, async t => {
    const folder = t.testdir()
    mkdirSync(join(folder, 'folder'))
    writeFileSync(join(folder, 'binary'), Buffer.from([0, 27, 200, 255]))
    const { code, stderr } = await startBench(t, '--from', join(folder, name)).ended
    t.equal(code, 1)
    t.match(stderr, /^usher bench: .*\n$/)
    t.match(stderr, words)
    t.notMatch(stderr, '\u001B')
  })
