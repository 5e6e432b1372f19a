import { once } from 'node:events'
import { request, type IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { Viewers } from '../../../src/observe/page/viewers.ts'
import { splitHostPort } from '../../../src/util/ip.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import { servePage, statusOfMany } from '../../support/page-fixture.ts'
import { until } from '../../support/until.ts'
import { ask } from '../admin-client.ts'

/** One that watches: what has come so far, and its end. */
const watch = async (t: Test, address: string, headers = {}) => {
  const { host, port } = splitHostPort(address) ?? { host: '', port: 0 }
  const asked = request({ host, port, path: '/stream', agent: false, headers }).end()
  t.teardown(() => void asked.destroy())
  const [answer] = (await once(asked, 'response')) as [IncomingMessage]
  let text = ''
  let ended = false
  answer.setEncoding('utf8').on('data', piece => (text += String(piece)))
  for (const event of ['close', 'error']) answer.on(event, () => (ended = true))
  asked.on('error', () => (ended = true))
  return {
    answer,
    text: () => text,
    ticks: () => text.split('event: tick\n').length - 1,
    ended: () => ended,
    leave: () => void asked.destroy(),
  }
}

t.test('four watch, on one look a second; with the last of them it ends', async t => {
  const { status, looks } = statusOfMany(20)
  const { address } = await servePage(t, status)
  await sleep(50)
  t.equal(looks(), 1, 'of the fixture: nobody watches, nothing is looked at')
  const four = await Promise.all([1, 2, 3, 4].map(() => watch(t, address)))
  t.match(four[0]?.answer.headers, {
    'content-type': 'text/event-stream',
    'cache-control': 'no-store',
    'access-control-allow-origin': undefined,
  })
  t.match(await ask(address, '/stream'), {
    status: 503,
    body: '4 watch already, and no more can; close another page: the log says where from they watch\n',
  })
  await until('each has two looks', () => four.every(({ ticks }) => ticks() >= 2))
  const most = Math.max(...four.map(({ ticks }) => ticks()))
  t.ok(looks() <= most + 2, 'they share them')
  for (const one of four)
    t.match(
      one.text(),
      /^retry: 2000\n\nevent: begin\ndata: "[-\da-f]{36}"\n\nevent: head\n.*service-00019.*event: tick/s,
    )
  for (const { leave } of four) leave()
  await until('another can watch', async () => {
    const one = await watch(t, address)
    const { statusCode } = one.answer
    one.leave()
    return statusCode === 200
  })
  await sleep(100)
  const before = looks()
  await sleep(1300)
  t.equal(looks(), before, 'nothing is looked at')
})

t.test('pages of other sites take no place, and HEAD none either', async t => {
  const { status, looks } = statusOfMany(1)
  const { address } = await servePage(t, status)
  for (const site of ['cross-site', 'same-site'])
    t.match(await ask(address, '/stream', { headers: { 'Sec-Fetch-Site': site } }), {
      status: 403,
      body: 'not for pages of other sites\n',
    })
  t.equal(looks(), 1)
  for (let i = 0; i < 6; i++)
    t.match(await ask(address, '/stream', { method: 'HEAD' }), { status: 200, body: '' })
  const own = await watch(t, address, { 'Sec-Fetch-Site': 'same-origin' })
  t.equal(own.answer.statusCode, 200)
})

t.test('what they wait for ends with the server', async t => {
  const { status } = statusOfMany(1)
  const { address, close } = await servePage(t, status)
  const one = await watch(t, address)
  await until('it watches', () => one.ticks() > 0)
  await close()
  await until('it has ended', one.ended)
})

/** Of 2000 ServicePorts; nothing goes wrong that would be logged. */
const atFakeTime = (t: Test) => {
  const { status } = statusOfMany(2000)
  const clock = new FakeClock()
  const unsaid = () => void t.fail()
  const viewers = new Viewers({
    status,
    recent: { texts: new Map() },
    clock,
    log: { error: unsaid, warn: unsaid },
  })
  return { viewers, clock }
}

t.test('one that reads nothing costs little, and gives its place up', async t => {
  const { viewers, clock } = atFakeTime(t)
  const idle = viewers.join('')
  t.teardown(() => void idle?.destroy())
  await until('it has as much as may wait', () => (idle?.readableLength ?? 0) > 60_000)
  await sleep(50)
  t.ok((idle?.readableLength ?? 0) < 200_000, 'and no more')
  clock.advance(19_999)
  await sleep(20)
  t.equal(idle?.destroyed, false)
  clock.advance(1)
  t.equal(idle?.destroyed, true)
  await until('what was looked at for it is gone', () => viewers.latest === undefined)
  await until('nothing is under way', () => clock.waiting === 0)
})

t.test(
  'who says it takes what comes, and then reads nothing, gives its place up',
  async t => {
    const { viewers, clock } = atFakeTime(t)
    const idle = viewers.join('')
    t.teardown(() => void idle?.destroy())
    await once(idle ?? t, 'readable')
    const viewer = /data: "(.*)"/.exec(String(idle?.read()))?.[1] ?? ''
    await until('it has as much as may wait', () => (idle?.readableLength ?? 0) > 60_000)
    await sleep(50)
    clock.advance(5000)
    t.equal(viewers.takes(viewer), true)
    clock.advance(19_999)
    await sleep(20)
    t.equal(idle?.destroyed, false)
    clock.advance(1)
    t.equal(idle?.destroyed, true)
  },
)

t.test('who leaves in the midst of what it is told leaves no timer', async t => {
  const { viewers, clock } = atFakeTime(t)
  const one = viewers.join('')
  let told = ''
  one?.on('data', piece => {
    told += String(piece)
    if (!told.endsWith('\n\n') || !/event: head\n/.test(told)) return
    one.removeAllListeners('data')
    // So long that others have their turn before the next piece, in which it leaves.
    for (const end = performance.now() + 10; performance.now() < end;);
    process.nextTick(() => {
      t.equal(viewers.takes(/data: "(.*)"/.exec(told)?.[1] ?? ''), true)
      one.destroy()
    })
  })
  await until('it has left', () => one?.closed === true)
  await sleep(50)
  t.equal(clock.waiting, 0)
})

/** How a connection ends that asks for the stream, and reads no more than that it has begun. */
const idles = async (t: Test, address: string): Promise<() => string> => {
  const { host, port } = splitHostPort(address) ?? { host: '', port: 0 }
  const socket = connect(port, host)
  t.teardown(() => void socket.destroy())
  let how = ''
  socket.on('error', (error: NodeJS.ErrnoException) => (how = error.code ?? ''))
  socket.write('GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n')
  await once(socket, 'readable')
  return () => how
}

t.test('who does not say that it takes what comes gives its place up', async t => {
  const { status } = statusOfMany(5)
  const clock = new FakeClock()
  const { address } = await servePage(t, status, undefined, clock)
  const one = await watch(t, address)
  await until('it is told its name', () => one.ticks() > 0)
  const viewer = /data: "(.*)"/.exec(one.text())?.[1]
  const says = (name = viewer) => ask(address, `/stream/taken?viewer=${name}`)
  const others = await Promise.all([1, 2, 3].map(() => idles(t, address)))
  t.equal((await ask(address, '/stream')).status, 503)
  for (let at = 0; at < 30; at += 1) {
    const before = one.ticks()
    clock.advance(1000)
    // It is told more, which it takes, too.
    await until('there is a look', () => one.ticks() > before)
    if (at % 5 === 4) t.equal((await says()).status, 200)
  }
  await until('the others are out', () => others.every(how => how() === 'ECONNRESET'))
  t.equal(one.ended(), false)
  t.equal((await says('unknown')).status, 404)
  t.match(
    await ask(address, `/stream/taken?viewer=${viewer}`, {
      headers: { 'Sec-Fetch-Site': 'cross-site' },
    }),
    { status: 403 },
  )
  t.equal((await watch(t, address)).answer.statusCode, 200, 'their places are free')
  const before = one.ticks()
  clock.advance(1000)
  await until('it is told more', () => one.ticks() > before)
  clock.advance(20_000)
  await until('it is out, too', one.ended)
  t.equal((await says()).status, 404)
})

t.test('who has the places is in the log, when one more is refused', async t => {
  const { status } = statusOfMany(1)
  const clock = new FakeClock()
  const { address, records } = await servePage(t, status, undefined, clock)
  const four = await Promise.all([1, 2, 3, 4].map(() => watch(t, address)))
  const names = four.map(({ answer: { socket } }) => `127.0.0.1:${socket.localPort}`)
  const refused = async () => t.equal((await ask(address, '/stream')).status, 503)
  await refused()
  await refused()
  const viewers = names.toSorted().map(name => `${name} for 0s`)
  t.match(records, [{ client: /^127\.0\.0\.1:\d+$/ }])
  const [{ viewers: said }] = records as [{ viewers: string[] }]
  t.strictSame(said.toSorted(), viewers)
  clock.advance(15_000)
  await refused()
  t.equal(records.length, 1, 'not each time')
})

t.test('a look that fails is said, and those who watch come again', async t => {
  const { status } = statusOfMany(1)
  let fails = true
  const { address, records } = await servePage(
    t,
    () => (fails ? Promise.reject(new Error('no relay')) : status()),
    await status(),
  )
  const one = await watch(t, address)
  await until('it has ended', one.ended)
  t.match(records, [{ err: { message: 'no relay' } }])
  fails = false
  const again = await watch(t, address)
  await until('there is a look', () => again.ticks() > 0)
})
