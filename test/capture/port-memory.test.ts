import { execFileSync } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  readFileSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { chmod, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { openPortMemory } from '../../src/capture/port-memory.ts'
import type { HeldPort } from '../../src/capture/proxy-ports.ts'
import { FakeClock } from '../support/fake-clock.ts'
import { until } from '../support/until.ts'

const day = 24 * 3600 * 1000
const start = 1_700_000_000_000

const world = (t: Test) => {
  const directory = join(t.testdir(), 'state')
  const file = join(directory, 'proxy-ports')
  const clock = new FakeClock()
  let wall = start
  const problems: string[] = []
  const open = () =>
    openPortMemory({
      directory,
      clock,
      wallClock: () => wall,
      failed: problem => problems.push(problem),
    })
  const text = () => (existsSync(file) ? readFileSync(file, 'utf8') : undefined)
  return {
    directory,
    file,
    clock,
    problems,
    open,
    text,
    later: (ms: number) => (wall += ms),
  }
}

const a: HeldPort = {
  id: 'IPv4 default/a:web/TCP',
  protocol: 'TCP',
  port: 40_001,
  away: false,
}
const b: HeldPort = {
  id: 'IPv6 default/b:/UDP load-balancer',
  protocol: 'UDP',
  port: 40_001,
  away: false,
}
const away = (one: HeldPort): HeldPort => ({ ...one, away: true })

t.test('what is held is there again in the next process', async t => {
  const { open, text, file, directory, problems } = world(t)
  const first = await open()
  t.same(first.known, [])
  first.changed(() => [away(a), b])
  await first.close()
  t.equal(
    text(),
    `usher-proxy-ports 1\nTCP 40001 1700000000 ${a.id}\nUDP 40001 0 ${b.id}\n`,
  )
  t.equal(statSync(file).mode & 0o777, 0o600)
  t.equal(statSync(directory).mode & 0o777, 0o700)
  t.same(await readdir(directory), ['proxy-ports'])
  t.same((await open()).known, [away(a), away(b)])
  t.same(problems, [])
})

t.test('changes are written together, a second after the first', async t => {
  const { open, text, clock } = world(t)
  const memory = await open()
  memory.changed(() => [a])
  clock.advance(600)
  memory.changed(() => [a, b])
  clock.advance(399)
  t.equal(clock.waiting, 1)
  t.equal(text(), undefined)
  clock.advance(1)
  await until('written', () => text() !== undefined)
  t.match(text(), b.id)
  t.equal(clock.waiting, 0)
  await memory.close()
})

t.test('the same again is not written', async t => {
  const { open, text, file } = world(t)
  const first = await open()
  first.changed(() => [a, b])
  await first.close()
  const { ino } = statSync(file)
  const second = await open()
  second.changed(() => [a, b])
  await second.close()
  t.equal(statSync(file).ino, ino)
  const third = await open()
  third.changed(() => [b])
  await third.close()
  t.not(statSync(file).ino, ino)
  t.equal(text(), `usher-proxy-ports 1\nUDP 40001 0 ${b.id}\n`)
})

t.test('who is away for longer than a week is forgotten', async t => {
  const { open, later, text } = world(t)
  const first = await open()
  first.changed(() => [away(a), b])
  await first.close()
  later(6 * day)
  const second = await open()
  t.same(second.known, [away(a), away(b)])
  second.changed(() => [away(a), away(b)])
  await second.close()
  t.match(text(), `TCP 40001 ${start / 1000} ${a.id}`)
  later(2 * day)
  const third = await open()
  t.same(third.known, [away(b)])
  third.changed(() => [away(b)])
  later(6 * day)
  await third.close()
  t.equal(text(), 'usher-proxy-ports 1\n')
})

t.test(
  'no more than 100 000 are written, those away for longest are left out',
  async t => {
    const { open, text } = world(t)
    const memory = await open()
    const all = Array.from({ length: 100_003 }, (_, i) => ({
      id: `IPv4 default/s${i}:web/TCP`,
      protocol: 'TCP' as const,
      port: 1 + (i % 65_535),
      away: false,
    }))
    memory.changed(() => [away(a), ...all])
    await memory.close()
    const lines = text()?.split('\n') ?? []
    t.equal(lines.length, 1 + 100_000 + 1)
    t.match(lines[1], /default\/s3:/)
    t.equal((await open()).known.length, 100_000)
  },
)

t.test('an id that is no line is left out', async t => {
  const { open, text } = world(t)
  const memory = await open()
  memory.changed(() => [{ ...a, id: 'one\ntwo' }, b])
  await memory.close()
  t.equal(text(), `usher-proxy-ports 1\nUDP 40001 0 ${b.id}\n`)
})

const good = `TCP 40001 0 ${a.id}\n`
const bad: readonly (readonly [name: string, content: string, says: RegExp])[] = [
  ['nothing', '', /is not a file of proxy ports/],
  ['something else', '{"ports": []}\n', /is not a file of proxy ports/],
  [
    'a later version',
    `usher-proxy-ports 2\n${good}`,
    /has version 2, and this Usher reads only version 1/,
  ],
  [
    'a cut-off end',
    `usher-proxy-ports 1\n${good}${good.slice(0, 20)}`,
    /ends in the middle/,
  ],
  [
    'a bad port',
    `usher-proxy-ports 1\n${good}TCP 65536 0 x\n`,
    /line 3 is not a proxy port/,
  ],
  ['a bad protocol', 'usher-proxy-ports 1\nSCTP 1 0 x\n', /line 2 is not a proxy port/],
  ['no id', 'usher-proxy-ports 1\nTCP 1 0 \n', /line 2 is not a proxy port/],
  ['NULs', `usher-proxy-ports 1\n${'\0'.repeat(4096)}\n`, /line 2 is not a proxy port/],
  [
    'too many lines',
    `usher-proxy-ports 1\n${good.repeat(100_001)}`,
    /more than 100000 lines/,
  ],
]

t.test('a file that is no good is told of, ignored and put aside', async t => {
  for (const [name, content, says] of bad) {
    await t.test(name, async t => {
      const { open, directory, file, problems, text } = world(t)
      mkdirSync(directory)
      writeFileSync(file, content)
      const memory = await open()
      t.same(memory.known, [])
      t.match(problems, [says])
      memory.changed(() => [b])
      await memory.close()
      t.equal(text(), `usher-proxy-ports 1\nUDP 40001 0 ${b.id}\n`)
      t.equal(readFileSync(`${file}.unusable`, 'utf8'), content)
      t.equal(problems.at(-1), '')
    })
  }
})

t.test('what is no file, or huge, is not even read', async t => {
  await t.test('huge', async t => {
    const { open, directory, file, problems } = world(t)
    mkdirSync(directory)
    writeFileSync(file, 'usher-proxy-ports 1\n')
    truncateSync(file, 60_000_000)
    t.same((await open()).known, [])
    t.match(problems, [/has 60000000 bytes, more than/])
  })
  await t.test('a directory', async t => {
    const { open, file, problems } = world(t)
    mkdirSync(file, { recursive: true })
    t.same((await open()).known, [])
    t.match(problems, [/not a regular file/])
  })
  await t.test('a FIFO', { skip: process.platform === 'win32' }, async t => {
    const { open, directory, file, problems } = world(t)
    mkdirSync(directory)
    execFileSync('mkfifo', [file])
    t.same((await open()).known, [])
    t.match(problems, [/not a regular file/])
  })
  await t.test(
    'nor is one written to',
    { skip: process.platform === 'win32' },
    async t => {
      const { open, directory, file, problems } = world(t)
      mkdirSync(directory)
      execFileSync('mkfifo', [`${file}.tmp`])
      const memory = await open()
      memory.changed(() => [a])
      await memory.close()
      t.match(problems, [/can't save proxy ports: ENXIO/])
    },
  )
})

t.test(
  'what can not be written is told once, tried again, and told when it can',
  async t => {
    const { open, directory, clock, problems, text } = world(t)
    writeFileSync(directory, 'a file where the directory should be')
    const memory = await open()
    t.match(problems, [/cannot load the proxy ports of the last run: ENOTDIR/])
    memory.changed(() => [a])
    clock.advance(1000)
    await until('told', () => problems.length === 2)
    t.match(problems[1], /can't save proxy ports: (EEXIST|ENOTDIR)/)
    for (const ms of [5000, 10_000, 20_000, 40_000, 60_000, 60_000]) {
      await until('the next try is planned', () => clock.waiting === 1)
      clock.advance(ms - 1)
      t.equal(clock.waiting, 1, `not before ${ms}`)
      memory.changed(() => [a, b])
      clock.advance(1)
    }
    t.equal(problems.length, 2)
    await until('the next try is planned', () => clock.waiting === 1)
    await rm(directory)
    clock.advance(60_000)
    await until('written', () => problems.length === 3)
    t.equal(problems[2], '')
    t.match(text(), b.id)
    await memory.close()
    t.equal(clock.waiting, 0)
  },
)

t.test('a directory that may not be written to is no obstacle', async t => {
  const root = process.getuid?.() === 0
  const { open, directory, problems } = world(t)
  mkdirSync(directory)
  // Not even root writes below this one.
  if (root) {
    const memory = await openPortMemory({
      directory: '/proc/self/usher',
      clock: new FakeClock(),
      failed: problem => problems.push(problem),
    })
    memory.changed(() => [a])
    await memory.close()
  } else {
    await chmod(directory, 0o500)
    const memory = await open()
    memory.changed(() => [a])
    await memory.close()
  }
  t.match(problems, [/can't save proxy ports: (ENOENT|EACCES|EPERM|EROFS)/])
})
