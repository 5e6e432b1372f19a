// A process of its own: long.
import { randomInt } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { exampleManifest, proxyOver } from '../../src/cli/demo.ts'
import { parseOptions } from '../../src/config/parse.ts'
import { bars } from '../../src/demo/sections.ts'
import { answersOn } from '../../src/demo/demo-source.ts'
import { planOf } from '../../src/demo/plan.ts'
import {
  figuresHeader,
  figuresLine,
  figuresOf,
  runDemo,
  type DemoDeps,
} from '../../src/demo/run-demo.ts'
import { createScreen } from '../../src/demo/screen.ts'
import { flaky, spread, sticky } from '../../src/demo/sections.ts'
import type { EndpointSlice, SlicePort } from '../../src/model/service.ts'
import { systemClock } from '../../src/util/clock.ts'
import {
  endpointOf,
  listen,
  servicePort,
  serviceOf,
  slicePort,
  stageOf,
  statusOf,
} from '../support/demo.ts'

const example = readFileSync(resolve('deploy/examples/demo.yaml'), 'utf8')

/** Addresses of this test alone: a demo may be running on the same computer. */
const prefix = `127.${randomInt(100, 200)}`

/** Where the system has 127.0.0.1 alone, only the fallback can be shown. */
const skip = (await answersOn(`${prefix}.0.10`))
  ? false
  : 'this system does not answer on all of 127.0.0.0/8'

// Where the code is compiled as it is loaded, a thread of the other takes seconds to start.
const options = parseOptions('demo', [
  '--relay=portable',
  '--metrics-bind-address=127.0.0.1:0',
  '--healthz-bind-address=127.0.0.1:0',
  '--log-level=fatal',
])

interface Show {
  readonly text: () => string
  readonly stop: () => void
  readonly code: Promise<number>
}

/** Starts the demo over a variant of the example; it is stopped when the test ends. */
const show = (
  t: Test,
  edit: (manifest: string) => string = same,
  deps: Partial<DemoDeps> = {},
): Show => {
  const own = edit(example).replaceAll('127.96.', `${prefix}.`)
  const path = resolve(t.testdir({ 'demo.yaml': own }), 'demo.yaml')
  let text = ''
  const stop = new AbortController()
  const code = runDemo({
    manifest: () => exampleManifest(path),
    startProxy: proxyOver(options),
    once: true,
    allOfLoopback: true,
    screen: createScreen(part => (text += part), false),
    clock: systemClock,
    stop: stop.signal,
    usher: 'usher',
    ...deps,
  })
  t.teardown(async () => {
    stop.abort()
    await code.catch(() => {})
  })
  return { text: () => text, stop: () => stop.abort(), code }
}

const same = (manifest: string): string => manifest

/** The demo that stays up, at a quicker pace. */
const staying = { once: false, restartMs: 300, everyMs: 50 }

const pidsIn = (text: string): number[] =>
  [...text.matchAll(/\(pid (\d+)\)/g)].map(([, pid]) => Number(pid))

const runs = (pid: number): boolean => {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

/** Of a process of Linux. */
const groupOf = (pid: number | 'self'): string | undefined =>
  readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ')[2]

const until = async (what: string, condition: () => boolean): Promise<void> => {
  const end = Date.now() + 60_000
  while (!condition()) {
    if (Date.now() > end) throw new Error(`waited in vain for ${what}`)
    await sleep(10)
  }
}

const slice = (serviceName: string, ports: SlicePort[]): EndpointSlice => ({
  namespace: 'default',
  name: `${serviceName}-x`,
  serviceName,
  family: 'IPv4',
  ports,
  endpoints: [endpointOf('127.0.0.1'), endpointOf('127.0.0.2', 'dead-node')],
  lastChangeTriggerTime: 0,
})

const occupy = async (t: Test, host: string, port: number) => {
  const server = createServer()
  await listen(server, host, port)
  const release = (): Promise<void> =>
    new Promise(done => void server.close(() => done()))
  t.teardown(release)
  return release
}

t.test('meets its expectations and leaves no process behind', { skip }, async t => {
  const { code, text } = show(t)
  t.equal(await code, 0, text())
  t.match(text(), /✔ all 4 expectations are met/)
  t.match(text(), /web-1 +█{10} +10\n/, 'requests are spread evenly')
  t.match(text(), /127\.0\.0\.11 +→ \w+-\d ×6\n/, 'a client sticks to one backend')
  t.match(text(), /0 failed; Usher retried (once|\d+ times)/)
  t.match(text(), /UDP +echo-2 +█/)
  const pids = pidsIn(text())
  t.equal(pids.length, 12, 'one process for each endpoint that is not dead')
  t.strictSame(pids.filter(runs), [])
})

t.test('fails, saying why, when what it shows is not so', { skip }, async t => {
  const { code, text } = show(t, manifest =>
    manifest
      .replace('sessionAffinity: ClientIP', 'sessionAffinity: None')
      .replace('- addresses: [127.96.12.1]', '$&\n    nodeName: dead-node')
      .replace('- addresses: [127.96.12.2]', '$&\n    nodeName: dead-node'),
  )
  t.equal(await code, 1)
  t.match(text(), /✘ 2 of 4 expectations broken/)
  t.match(text(), /every client stays with .*; 127\.0\.0\.11 was answered by sticky-\d/)
  t.match(text(), /no request fails.*; 30 of 30 requests failed \(/)
  t.strictSame(pidsIn(text()).filter(runs), [])
})

t.test('says which Service the manifest lacks', { skip }, async t => {
  const { code, text } = show(t, manifest => manifest.replaceAll('flaky', 'other'))
  t.equal(await code, 1)
  t.match(text(), /can't go on: there is no TCP port of a Service flaky/)
  t.strictSame(pidsIn(text()).filter(runs), [])
})

t.test('says what is wrong with the manifest', { skip }, async t => {
  const { code, text } = show(t, manifest =>
    manifest.replace('port: 8080', 'port: 70000'),
  )
  t.equal(await code, 1)
  t.match(text(), /can't go on: .*Service default\/web.*port/)
})

t.test('names the port of a backend that is taken', { skip }, async t => {
  const release = await occupy(t, `${prefix}.10.2`, 9000)
  const { code, text } = show(t)
  t.equal(await code, 1)
  t.match(text(), `${prefix}.10.2:9000 (backend web-2) is already in use`)
  t.match(text(), /another demo/)
  await release()
  const again = show(t)
  t.equal(await again.code, 0, 'the backends that had started did not keep their ports')
})

t.test('names the VIP that is taken', { skip }, async t => {
  await occupy(t, `${prefix}.0.11`, 8080)
  const { code, text } = show(t)
  t.equal(await code, 1)
  t.match(
    text(),
    `${prefix}.0.11:8080 (the VIP of default/sticky:http) is already in use`,
  )
})

t.test('has not come out well when it was stopped before its end', { skip }, async t => {
  const { code, stop, text } = show(t)
  stop()
  t.equal(await code, 1)
  t.match(text(), /stopped before the end/)
})

t.test('makes do with 127.0.0.1 alone, and says so', async t => {
  const { code, text } = show(t, same, { allOfLoopback: false })
  t.equal(await code, 0, text())
  t.match(text(), /has only 127\.0\.0\.1 for TCP and UDP/)
  t.match(text(), `TCP ${prefix}.0.10:8080, dial 127.0.0.1:`, 'VIPs are as they were')
  t.match(text(), /requests to http:\/\/127\.0\.0\.1:\d+\n/, 'a proxy port is dialled')
  t.match(text(), /6 requests from 1 client /)
  t.match(
    text(),
    /0 failed; Usher retried (once|\d+ times)/,
    'the dead backend is dead there too',
  )
})

t.test('starts a killed backend again while no request fails', { skip }, async t => {
  const { code, text, stop } = show(t, same, staying)
  await until('live figures', () => /\d\d:\d\d:\d\d +\d/.test(text()))
  t.match(text(), `curl http://${prefix}.0.10:8080`)
  t.match(text(), /usher status --address 127\.0\.0\.1:\d+ /)
  const victim = Number(/kill (\d+) +ends web-2/.exec(text())?.[1])
  t.ok(pidsIn(text()).includes(victim), 'the pid to kill is that of a backend')
  // Who ends the whole group, as Ctrl-C does, ends no backend before the demo has.
  if (process.platform === 'linux') t.not(groupOf(victim), groupOf('self'))
  process.kill(victim, 'SIGTERM')
  await until('the news', () => text().includes(`web-2 (pid ${victim}) was killed`))
  t.match(text(), /starting it again in 0\.3 s/)
  await until('the return', () => /web-2 is back \(pid \d+\)/.test(text()))
  await sleep(200)
  stop()
  t.equal(await code, 0)
  t.match(text(), /sent \d+ requests meanwhile; none failed\./)
  t.notMatch(text(), /a request to/)
  t.strictSame(pidsIn(text()).filter(runs), [], 'the new process has ended too')
})

t.test('tells of requests that failed while it stayed up', { skip }, async t => {
  let lost = false
  const startProxy: DemoDeps['startProxy'] = async (source, only) => {
    const proxy = await proxyOver(options)(source, only)
    return {
      status: async () => (lost ? statusOf([]) : proxy.status()),
      metricsAddress: () => proxy.metricsAddress(),
      drain: ms => proxy.drain(ms),
      close: () => proxy.close(),
    }
  }
  const { code, text, stop } = show(t, same, { ...staying, startProxy })
  await until('live figures', () => text().includes('requests/s'))
  lost = true
  await until('failures', () => text().includes('! a request to'))
  stop()
  t.equal(await code, 0)
  t.match(text(), /no (?:TCP|UDP) port of a Service/)
  t.match(text(), /meanwhile; [1-9]\d* failed\./)
})

t.test('a section sees one backend that answers everything', async t => {
  const { expectation } = await spread(await stageOf(t, 'web', () => 'web-1'))
  t.notOk(expectation.ok)
  t.equal(expectation.reason, 'the shares are web-1 30')
})

t.test('a section sees an answer that no backend gives', async t => {
  const { expectation } = await spread(await stageOf(t, 'web', () => ''))
  t.match(expectation.reason, /30 of 30 requests failed \(an answer of no backend/)
})

t.test('a section sees a client that strays', async t => {
  let turn = 0
  const stage = await stageOf(t, 'sticky', () => `sticky-${(turn++ % 3) + 1}`)
  const { expectation } = await sticky(stage)
  t.match(expectation.reason, '127.0.0.1 was answered by sticky-1 2, sticky-2 2')
})

t.test('a section sees all clients sent to one backend', { skip }, async t => {
  const stage = await stageOf(t, 'sticky', () => 'sticky-1')
  const { expectation } = await sticky({
    ...stage,
    clientAddresses: ['127.0.0.1', '127.0.0.2'],
  })
  t.equal(expectation.reason, 'all clients were sent to sticky-1')
  t.ok((await sticky(stage)).expectation.ok, 'one client may well stay with one')
})

t.test('a section sees a dead backend that nobody met', async t => {
  const { expectation } = await flaky(await stageOf(t, 'flaky', () => 'flaky-1'))
  t.match(expectation.reason, /counts no retry: does anything listen for flaky-3/)
})

t.test('a section sees an example without a dead backend', async t => {
  const stage = await stageOf(t, 'flaky', () => 'flaky-1')
  const backends = stage.backends.filter(one => !one.dead)
  const { expectation } = await flaky({ ...stage, backends })
  t.match(expectation.reason, 'no backend of flaky is dead')
})

t.test('bars are to scale, at most 30 wide, and never vanish above zero', t => {
  const rows = [
    { name: 'a', count: 300 },
    { name: 'bb', count: 1 },
    { name: 'c', count: 0, note: 'dead' },
  ]
  t.strictSame(bars(rows), [
    `a   ${'█'.repeat(30)}  300`,
    `bb  █${' '.repeat(29)}    1`,
    `c   ${' '.repeat(30)}    0  dead`,
  ])
  t.end()
})

t.test('figures are rates over the time that passed, in aligned columns', t => {
  const before = figuresOf(statusOf([servicePort('web', { accepted: 10, retries: 1 })]))
  const now = figuresOf(
    statusOf([
      servicePort('web', { accepted: 50, active: 3, retries: 5, failed: 2 }),
      servicePort('echo', { protocol: 'UDP', accepted: 9, active: 1, datagrams: 8 }),
    ]),
  )
  const line = figuresLine('12:00:00', before, now, 2, 2)
  t.strictSame(line.trim().split(/ +/), ['12:00:00', '20', '4', '2', '4', '2'])
  t.equal(line.length, figuresHeader.length)
  t.end()
})

t.test('a plan names endpoints, knows what they speak and which are dead', t => {
  const at = { namespace: 'default', name: '' }
  const echoPorts = [slicePort('t', 'TCP'), slicePort('u', 'UDP')]
  const { backends } = planOf([
    { kind: 'EndpointSlice', ...at, object: slice('b', echoPorts) },
    { kind: 'EndpointSlice', ...at, object: slice('a', [slicePort('http', 'TCP')]) },
    { kind: 'Service', ...at, object: serviceOf('a') },
    { kind: 'Service', ...at, object: serviceOf('b') },
    { kind: 'Service', ...at, object: undefined },
  ])
  t.strictSame(
    backends.map(({ name, speaks, dead }) => `${name} ${speaks}${dead ? ' dead' : ''}`),
    [
      'a-1 http',
      'a-2 http dead',
      'b-1 tcp-echo',
      'b-1 udp-echo',
      'b-2 tcp-echo dead',
      'b-2 udp-echo dead',
    ],
  )
  t.end()
})

t.test('a screen uses colour only when it is told to', t => {
  const said = { plain: '', coloured: '' }
  const broken = [{ name: 'all is well', ok: false, reason: 'it is not' }]
  createScreen(part => (said.plain += part), false).summary(broken)
  createScreen(part => (said.coloured += part), true).summary(broken)
  t.equal(
    said.plain,
    '\n✘ 1 of 1 expectations broken:\n  ✘ not so: all is well; it is not\n',
  )
  t.ok(said.coloured.includes('\u001b['))
  t.end()
})
