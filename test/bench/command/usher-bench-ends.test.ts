// A process of its own: long.
import t from 'tap'
import { until } from '../../support/until.ts'
import { family } from './processes.ts'
import { recordIn, startBench } from './run-bench.ts'

t.setTimeout(500_000)

const targets = '--targets=direct,usher,haproxy,nginx'
const endless = ['--rounds=1000', '--seconds=0.1', '--only=download-1', targets]

for (const where of [['--loopback'], []] as const) {
  const name = where.length > 0 ? 'on loopback' : 'in namespaces, where they can be made'

  t.test(`Ctrl-C keeps what was measured and leaves nothing (${name})`, async t => {
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
    await until('all have ended', () => all.alive().length === 0)
  })
}

t.test('Ctrl-C does not wait for the end of a window', async t => {
  const flags = ['--only=download-1', '--targets=direct', '--rounds=1', '--seconds=600']
  const run = startBench(t, '--loopback', ...flags)
  await until('the long window', () => run.progress().includes('round 1'), 60_000)
  run.child.kill('SIGINT')
  t.equal((await run.ended).code, 130)
})

const parts = [
  {
    part: 'generator',
    program: 'bench-load-main.js',
    words: 'the load generator has ended',
  },
  {
    part: 'backend',
    program: 'bench-backends-main.js',
    words: 'a process of backend pod',
  },
]
for (const { part, program, words } of parts)
  t.test(`it ends in words when its ${part} dies`, async t => {
    const run = startBench(t, '--loopback', ...endless)
    await until('the first round', () => run.progress().includes('round 1'), 60_000)
    const victim = family(run.child.pid ?? 0).running(program)
    // 0 would be all of this test's own.
    if (victim === undefined) throw new Error(`no ${program} runs`)
    process.kill(victim, 'SIGKILL')
    const { code, stderr } = await run.ended
    t.equal(code, 1)
    t.match(stderr, `ended early: ${words}`)
    t.equal(recordIn(run.output).complete, false)
  })

t.test('it ends when nobody reads its output any more', async t => {
  const flags = ['--only=bulk', '--targets=direct', '--rounds=1', '--seconds=1']
  const run = startBench(t, '--loopback', ...flags)
  await until('the first round', () => run.progress().includes('round 1'), 60_000)
  // Reading it to its end fails, then.
  run.ended.catch(() => undefined)
  run.child.stdout?.destroy()
  await until('its end', () => run.child.exitCode !== null)
  t.equal(run.child.exitCode, 130)
  t.notMatch(run.progress(), /EPIPE|both-8/)
})
