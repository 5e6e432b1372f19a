import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { comparisonOf } from '../../src/bench/record/compare.ts'
import { until } from '../support/until.ts'
import { recordIn, startBench } from './parts/command/run-bench.ts'
import { httpServer, slowProxy } from './parts/command/servers.ts'
import { family } from './parts/command/processes.ts'

const short = ['--loopback', '--rounds', '2', '--seconds', '0.3']

t.test('a run on loopback measures, and writes figures and a report', async t => {
  const run = startBench(
    t,
    ...short,
    '--only=download-1,udp-64-16',
    '--targets=direct,usher,pipe',
  )
  const { code, stdout } = await run.ended
  t.equal(code, 0, stdout)
  const record = recordIn(run.output)
  t.equal(record.complete, true)
  t.strictSame(
    record.scenarios.map(({ name }) => name),
    ['download-1', 'udp-64-16'],
  )
  t.strictSame(
    record.targets.map(({ name }) => name),
    ['direct', 'usher', 'pipe'],
  )
  for (const scenario of record.scenarios)
    for (const outcome of scenario.outcomes)
      t.ok('sample' in outcome && (outcome.sample.figures['rate'] ?? 0) > 0, outcome)
  const [html = ''] = readdirSync(run.output).filter(name => name.endsWith('.html'))
  t.match(readFileSync(join(run.output, html), 'utf8'), /<svg/)
  t.match(stdout, /Written: /)
})

t.test('a target that was slowed down on purpose is seen as slower', async t => {
  const backend = await httpServer(t)
  const slow = await slowProxy(t, backend, 20)
  const even = await slowProxy(t, backend, 0)
  const run = startBench(
    t,
    ...['--rounds', '3', '--seconds', '0.3', '--only', 'requests-32,latency-50'],
    ...['--backend', backend, '--targets', 'direct'],
    ...['--target', `slow=${slow}`, '--target', `quick=${even}`],
  )
  const { code, stdout } = await run.ended
  t.equal(code, 0, stdout)
  for (const scenario of recordIn(run.output).scenarios) {
    const [metric] = scenario.metrics
    if (metric === undefined) throw new Error('a scenario without a metric')
    const found = comparisonOf(scenario, metric, 'slow', 'quick')
    t.equal(found?.verdict, 'worse', `${scenario.name}: ${JSON.stringify(found)}`)
  }
})

t.test('what is not installed is left out by name, and the rest goes on', async t => {
  const run = startBench(t, ...short, '--only=download-1', '--targets=direct,usher-local')
  const { code, stdout } = await run.ended
  t.equal(code, 0)
  t.match(stdout, /left out: usher-local: .*needs network namespaces/)
  t.match(recordIn(run.output).leftOut, [{ name: 'usher-local', why: /namespaces/ }])
})

const endless = [
  ...['--rounds', '1000', '--seconds', '0.2'],
  ...['--only', 'download-1', '--targets', 'direct,usher,haproxy,nginx'],
]

for (const where of [['--loopback'], []] as const) {
  const name = where.length > 0 ? 'on loopback' : 'in namespaces, where they can be made'

  t.test(`Ctrl-C ends it in time and keeps what was measured (${name})`, async t => {
    const run = startBench(t, ...endless, ...where)
    await until('the third round', () => run.progress().includes('round 3'), 60_000)
    const all = family(run.child.pid ?? 0)
    run.child.kill('SIGINT')
    const { code, stdout } = await run.ended
    t.equal(code, 130)
    const record = recordIn(run.output)
    t.equal(record.complete, false)
    t.ok((record.scenarios[0]?.outcomes.length ?? 0) >= 4)
    t.match(stdout, /Interrupted/)
    t.strictSame(all.alive(), [])
  })

  t.test(`killed, it leaves no process behind (${name})`, async t => {
    const run = startBench(t, ...endless, ...where)
    await until('the first round', () => run.progress().includes('round 1'), 60_000)
    const all = family(run.child.pid ?? 0)
    t.ok(all.size >= 5, 'the bench, its generator, two pods and a target')
    run.child.kill('SIGKILL')
    await until('all have ended', () => all.alive().length === 0, 15_000)
  })
}

t.test('a wrong name is told before anything is started', async t => {
  const { code, stderr } = await startBench(t, '--only', 'request').ended
  t.equal(code, 2)
  t.match(stderr, /"request" is none of them; give requests, /)
})

t.test('reports are made anew from the figures of an earlier run', async t => {
  const first = startBench(t, ...short, '--only=download-1', '--targets=direct,pipe')
  await first.ended
  const [json = ''] = readdirSync(first.output).filter(name => name.endsWith('.json'))
  const page = join(first.output, 'page.md')
  const again = startBench(t, '--from', join(first.output, json), '--markdown', page)
  const { code, stdout } = await again.ended
  t.equal(code, 0)
  t.match(stdout, /download-1/)
  t.match(readFileSync(page, 'utf8'), /page\/.*\.svg/)
  t.strictSame(
    readdirSync(join(first.output, 'page')).filter(name => name === 'figures.json'),
    ['figures.json'],
  )
})
