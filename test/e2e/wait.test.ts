// A process of its own: long, and it mostly waits.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import t from 'tap'
import { wait } from '../../src/cli/wait.ts'
import { parseOptions } from '../../src/config/parse.ts'
import { order, socketPath } from '../support/control-socket.ts'
import { keptIo } from '../support/kept-io.ts'
import { freeTcpPort, testHost } from '../support/ports.ts'
import { echoBackend, namedEcho, tcpBackend } from '../support/tcp-backend.ts'
import { makeNetns, netnsProblem } from '../support/netns.ts'
import { runningIn, usherIn } from '../support/usher-in.ts'
import { until } from '../support/until.ts'
import { silentBackend } from '../support/silent-backend.ts'
import { beginUsher, runUsher, startUsher } from '../support/usher.ts'
import { usherProgram } from '../support/usher-program.ts'

t.jobs = 4

t.test('it ends when somebody has come to listen', async t => {
  const port = await freeTcpPort()
  const { said, ended } = beginUsher('wait', `${testHost}:${port}`, '--stay=200ms')
  await said
  await tcpBackend(t, () => {}, testHost, port)
  const { code, out, err } = await ended
  t.equal(code, 0)
  t.equal(out, '')
  const [first, last] = err.trim().split('\n')
  t.match(
    first,
    `usher wait: ${testHost}:${port}: it refuses connections (ECONNREFUSED); waiting, `,
  )
  t.match(
    last,
    new RegExp(String.raw`^usher wait: ${testHost}:${port} accepts, after \d`),
  )
})

t.test('it gives up with 1 and the last reason', async t => {
  const closing = await tcpBackend(t, socket => void socket.end())
  const resetting = await tcpBackend(t, socket => void socket.resetAndDestroy())
  const refusing = `${testHost}:${await freeTcpPort()}`
  const silent = await silentBackend(t)
  const cases = [
    [refusing, 'it refuses connections (ECONNREFUSED)'],
    [closing.endpoint.key, 'it accepted and closed the connection without a byte'],
    [resetting.endpoint.key, 'it accepted and reset the connection without a byte'],
    [silent.key, 'no answer; given up'],
    ['nowhere.invalid:1', /there is no such host name|could not be resolved for now/],
  ] as const
  for (const [target, said] of cases) {
    const since = performance.now()
    const { code, err } = await runUsher(
      'wait',
      target,
      '--timeout=700ms',
      '--stay=200ms',
    )
    t.ok(performance.now() - since >= 700, target)
    t.equal(code, 1, target)
    const last = err.trim().split('\n').at(-1) ?? ''
    t.match(last, said)
    t.match(last, /; given up after 0\.[789] s|; given up after \d/)
  }
})

t.test('it waits for all of them', async t => {
  const here = await echoBackend(t)
  const gone = `${testHost}:${await freeTcpPort()}`
  const both = await runUsher(
    'wait',
    here.endpoint.key,
    gone,
    '--timeout=700ms',
    '--stay=200ms',
  )
  t.equal(both.code, 1)
  t.match(both.err, `usher wait: ${here.endpoint.key} accepts`)
  t.match(both.err, `usher wait: ${gone}: it refuses`)
})

t.test('what a sidecar accepts for nobody does not count', async t => {
  const [port, silentPort] = [await freeTcpPort(), await freeTcpPort()]
  const silent = await silentBackend(t)
  const dead = `${testHost}:${await freeTcpPort()}`
  await startUsher(
    t,
    'sidecar',
    `--route=tcp://${testHost}:${port}=${dead}`,
    `--route=tcp://0.0.0.0:${silentPort}=${silent.key}`,
  )
  const targets = [
    `${testHost}:${port}`,
    `tcp://${testHost}:${port}=${dead}?affinity=3h`,
    `tcp://0.0.0.0:${silentPort}`,
  ]
  const since = performance.now()
  const { code, err } = await runUsher('wait', ...targets, '--timeout=6s')
  t.equal(code, 1)
  t.ok(performance.now() - since >= 6000)
  const givenUp = err.split('\n').filter(line => line.includes('; given up after 6.'))
  t.equal(givenUp.length, targets.length, err)
  for (const line of givenUp)
    t.match(line, 'it accepted and reset the connection without a byte (ECONNRESET);')
})

t.test('through a sidecar, a byte counts at once and silence after 5 s', async t => {
  const [talking, listening] = [await freeTcpPort(), await freeTcpPort()]
  const first = await namedEcho(t, 'hello')
  const second = await echoBackend(t)
  await startUsher(
    t,
    'sidecar',
    `--route=tcp://${testHost}:${talking}=${first.endpoint.key}`,
    `--route=tcp://0.0.0.0:${listening}=${second.endpoint.key}`,
  )
  const word = await runUsher('wait', `tcp://${testHost}:${talking}`, '--timeout=4s')
  t.equal(word.code, 0)
  const silence = await runUsher('wait', `tcp://0.0.0.0:${listening}`)
  t.equal(silence.code, 0)
  t.match(silence.err, new RegExp(String.raw`0\.0\.0\.0:\d+ accepts, after [5-9]\.`))
})

t.test('a route whose clients only wait does not count', async t => {
  const [port, other, dead] = [
    await freeTcpPort(),
    await freeTcpPort(),
    await freeTcpPort(),
  ]
  const { endpoint } = await echoBackend(t)
  const control = await socketPath(t)
  const usher = await startUsher(
    t,
    'sidecar',
    `--route=tcp://${testHost}:${port}=${testHost}:${dead}?name=db&hold=1m`,
    `--route=tcp://0.0.0.0:${other}=${endpoint.key}?name=other&hold=1m`,
    '--dial-ladder=100ms',
    `--control-socket=${control}`,
  )
  const asking = (...args: string[]) =>
    runUsher('wait', ...args, `--address=${usher.metrics}`, '--stay=1s', '--timeout=5s')
  const db = `tcp://${testHost}:${port}`
  const held = await asking(db)
  t.equal(held.code, 1)
  t.match(
    held.err,
    'it accepted, but 1 client of route/db waits for an endpoint; given up',
  )
  t.equal((await asking(`127.0.0.1:${other}`)).code, 0, 'another route is served')

  await tcpBackend(t, () => {}, testHost, dead)
  t.equal((await asking(db)).code, 0, 'it has an endpoint now')

  await order(control, '/pause', { routes: ['other'] })
  const paused = await asking(`tcp://0.0.0.0:${other}`)
  t.equal(paused.code, 1)
  t.match(paused.err, '1 client of route/other waits for the end of a pause; given up')
})

t.test('a route whose clients wait for a place does not count', async t => {
  const { endpoint } = await tcpBackend(t, () => {})
  const port = await freeTcpPort()
  const usher = await startUsher(
    t,
    'sidecar',
    `--route=tcp://${testHost}:${port}=${endpoint.key}?name=full&max-connections=1&queue=1m`,
  )
  const client = connect(port, testHost)
  t.teardown(() => client.destroy())
  await until(
    'it has the place',
    async () => (await usher.status()).servicePorts[0]?.endpoints[0]?.active === 1,
  )
  const { code, err } = await runUsher(
    'wait',
    `tcp://${testHost}:${port}`,
    `--address=${usher.metrics}`,
    '--stay=1s',
    '--timeout=4s',
  )
  t.equal(code, 1)
  t.match(err, '1 client of route/full waits for a place; given up')
})

t.test('it says now and then what it waits for', async t => {
  const target = `${testHost}:${await freeTcpPort()}`
  const saidEvery = async (ms: number): Promise<number> => {
    const said: string[] = []
    const err = (text: string) => void said.push(text)
    const options = parseOptions('wait', [target, '--timeout=1200ms'])
    const io = { ...keptIo().io, err }
    t.equal(await wait(options, io, ms), 1)
    return said.filter(text => text.includes('waiting, ')).length
  }
  t.ok((await saidEvery(400)) > 1)
  t.equal(await saidEvery(3000), 1)
})

t.test('a signal ends it, also where it is the first process', async t => {
  const target = `${testHost}:${await freeTcpPort()}`
  const endings = [
    ['SIGTERM', 143],
    ['SIGINT', 130],
  ] as const
  for (const [signal, code] of endings) {
    const usher = spawn(process.execPath, [usherProgram, 'wait', target])
    await once(usher.stderr, 'data')
    usher.kill(signal)
    t.strictSame(await once(usher, 'exit'), [code, null])
  }
})

t.test('a wrong call is told what would be right', async t => {
  const cases = [
    [[], 'nothing to wait for; give an address'],
    [['db'], '"db" is neither HOST:PORT nor a route; give one like db.example:5432'],
    [['db:0'], 'is neither HOST:PORT nor a route'],
    [['http://db:80'], 'is neither HOST:PORT nor a route'],
    [['tcp://127.0.0.1=10.0.0.5:1'], 'is neither HOST:PORT nor a route'],
    [['udp://127.0.0.1:53=10.0.0.5:53'], 'is UDP, where nothing says who listens'],
    [['db:1', '--timeout=0'], '--timeout: "0" is too short'],
    [['db:1', '--stay=1'], '--stay: "1" is not a duration'],
  ] as const
  for (const [args, said] of cases) {
    const { code, err } = await runUsher('wait', ...args)
    t.equal(code, 2, args.join(' '))
    t.match(err, said)
  }
})

const noNetns = await netnsProblem('ip', 'nft')

t.test('each address of a name has seconds to answer', { skip: noNetns }, async t => {
  const ns = await makeNetns('slow')
  const port = 7000
  // The first SYN of a connection is lost, as on a link with a second of delay, or all are.
  const rules = `table ip t {
    set seen { type inet_service; flags dynamic,timeout; timeout 20s; }
    chain in {
      type filter hook input priority 0;
      ip daddr 127.0.0.3 tcp dport ${port} drop
      ip daddr 127.0.0.2 tcp dport ${port} tcp flags == syn tcp sport != @seen add @seen { tcp sport } drop
    }
  }`
  await ns.run('nft', ['-f', '-'], { input: rules })
  const program = `require('net').createServer(s => s.end('x')).listen(${port}, () => console.log('up'))`
  const end = await runningIn(ns, ['-e', program])
  t.teardown(end)
  const hosts = `${t.testdir({ hosts: '127.0.0.2 slow.example\n127.0.0.3 slow.example\n' })}/hosts`
  const mount = [
    'unshare',
    '--mount',
    'sh',
    '-c',
    'mount --bind "$0" /etc/hosts; exec "$@"',
    hosts,
  ]
  const args = ['wait', `slow.example:${port}`, '--timeout=20s']
  const { code, err } = await usherIn(ns, args, mount)
  t.equal(code, 0, err)
  t.match(err, /accepts, after [12]\./)
})
