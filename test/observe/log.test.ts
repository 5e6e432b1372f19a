import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, existsSync, openSync, readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { ConnectionLog } from '../../src/observe/connection-log.ts'
import { createLog } from '../../src/observe/log.ts'
import type { LogLevel } from '../../src/observe/log.ts'
import { causeText, type Cause, type ConnectionRecord } from '../../src/relay/cause.ts'
import { FakeClock } from '../support/fake-clock.ts'
import { typescript } from '../support/typescript.ts'

const capture = async (level: LogLevel) => {
  const lines: string[] = []
  const stream = { write: (line: string) => void lines.push(line) }
  const log = await createLog({ level, format: 'json', stream })
  const records = (): Record<string, unknown>[] => lines.map(line => JSON.parse(line))
  return { log, lines, records }
}

const connectionLog = async (level: LogLevel) => {
  const { log, records } = await capture(level)
  const clock = new FakeClock()
  const observer = new ConnectionLog({ log, clock, burst: 10, perSecond: 1 })
  return { observer, clock, records }
}

const record = (cause: Cause, listener = 'default/web:http'): ConnectionRecord => ({
  listener,
  client: '192.0.2.9:40000',
  endpoint: '10.0.0.2:80',
  attempts: [
    { endpoint: '10.0.0.1:80', result: 'refused', ms: 0.123456 },
    { endpoint: '10.0.0.2:80', result: 'connected', ms: 1 },
  ],
  bytesToBackend: 10,
  bytesToClient: 2000,
  dialMs: 1.25,
  totalMs: 99.9999999,
  cause,
  detail: 'ECONNRESET',
})

const architecture = readFileSync(
  new URL('../../docs/architecture.md', import.meta.url),
  'utf8',
)
const allCauses = Object.keys(causeText) as Cause[]
/** As the table of causes has it. */
const logged = allCauses.filter(cause =>
  new RegExp(`^\\| \`${cause}\` .*\\| info +\\|$`, 'm').test(architecture),
)

t.test('a record is one JSON line with ISO time and the level as a word', async t => {
  const { log, lines, records } = await capture('info')
  log.child({ part: 'source' }).warn({ file: 'a\nb' }, 'cannot read')
  t.equal(lines.length, 1)
  t.match(lines[0], /^[^\n]*\n$/)
  const [first] = records()
  t.match(first, { level: 'warn', part: 'source', file: 'a\nb', msg: 'cannot read' })
  t.match(first?.['time'], /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  t.notOk('pid' in (first ?? {}))
})

t.test('records below the level are not written', async t => {
  const { log, lines } = await capture('warn')
  log.info({}, 'quiet')
  log.debug({}, 'quieter')
  log.error({ err: new Error('boom') }, 'loud')
  t.equal(lines.length, 1)
  t.match(lines[0], 'boom')
  t.notOk(log.isLevelEnabled('info'))
  t.ok(log.isLevelEnabled('warn'))
})

t.test('pretty is a readable line at once, without a worker', async t => {
  const lines: string[] = []
  const stream = { write: (line: string) => void lines.push(line) }
  const log = await createLog({ level: 'info', format: 'pretty', stream })
  log.info({ vip: '127.96.0.10:80' }, 'listening')
  t.match(lines.join(''), /INFO.*: listening \{"vip":"127\.96\.0\.10:80"\}\n$/)
})

t.test('auto is JSON when lines do not go to a terminal', async t => {
  const lines: string[] = []
  const stream = { write: (line: string) => void lines.push(line) }
  const log = await createLog({ level: 'info', format: 'auto', stream })
  log.info({}, 'hello')
  t.match(JSON.parse(lines.join('')), { msg: 'hello' })
})

const run = promisify(execFile)
const program = (end: string) => `
  import { createLog } from '${new URL('../../src/observe/log.ts', import.meta.url).href}'
  const log = await createLog({ level: 'info', format: 'json' })
  for (let i = 0; i < 3; i++) log.info({ i }, 'short')
  ${end}`
const node = (source: string) =>
  run(process.execPath, [typescript, '--input-type=module', '-e', source])

t.test('buffered records are written when the process exits', async t => {
  const { stdout } = await node(program('process.exit(0)'))
  t.equal(stdout.split('\n').filter(line => line.includes('"short"')).length, 3)
})

t.test('buffered records are written when the process dies of an exception', async t => {
  const died = await node(program('setTimeout(() => { throw new Error("x") })')).then(
    () => t.fail('it should have died'),
    (error: { stdout: string }) => error.stdout,
  )
  t.equal(
    String(died)
      .split('\n')
      .filter(line => line.includes('"short"')).length,
    3,
  )
})

t.test('a record is on its way at once, without more of them', async t => {
  // The end does not flush: SIGKILL leaves the program no time for anything.
  const died = await node(
    program('setTimeout(() => process.kill(process.pid, "SIGKILL"), 500)'),
  ).then(
    () => t.fail('it should have been killed'),
    (error: { stdout: string }) => error.stdout,
  )
  t.equal(
    String(died)
      .split('\n')
      .filter(line => line.includes('"short"')).length,
    3,
  )
})

for (const format of ['json', 'pretty'] as const) {
  const flood = `
    import { createLog } from './src/observe/log.ts'
    const log = await createLog({ level: 'info', format: '${format}' })
    const text = 'x'.repeat(1000)
    for (let i = 0; i < 30000; i++) log.info({ i }, text)
    process.stderr.write('all logged')
    setTimeout(() => process.exit(0), 100)`
  const ended = async (stdout: 'pipe' | number) => {
    const child = spawn(
      process.execPath,
      [typescript, '--input-type=module', '-e', flood],
      { stdio: ['ignore', stdout, 'pipe'] },
    )
    let said = ''
    child.stderr?.on('data', chunk => (said += String(chunk)))
    const [code] = (await once(child, 'close')) as [number | null]
    return { code, said }
  }

  t.test(`${format}: a reader that never reads holds nothing up`, async t => {
    // Nothing of ours reads the pipe: `close` waits for its end, which is the child's.
    const { code, said } = await ended('pipe')
    t.equal(code, 0)
    t.match(said, /all logged/)
    t.match(said, /records are being lost: the reader is too slow/)
  })

  t.test(`${format}: a full disk costs records and nothing else`, async t => {
    if (!existsSync('/dev/full')) return t.comment('skipped: there is no /dev/full here')
    const full = openSync('/dev/full', 'w')
    t.teardown(() => closeSync(full))
    const { code, said } = await ended(full)
    t.equal(code, 0)
    t.match(said, /records are being lost: ENOSPC/)
  })
}

t.test('warnings of Node.js are records', async t => {
  const warn = `
    import { createLog } from './src/observe/log.ts'
    await createLog({ level: 'info', format: 'json' })
    process.emitWarning('an old thing', 'DeprecationWarning', 'DEP9999')`
  const args = [typescript, '--input-type=module', '-e', warn]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)])
  t.match(JSON.parse(out.trim()), {
    level: 'warn',
    msg: 'Node.js warning',
    name: 'DeprecationWarning',
    stack: /an old thing/,
  })
  t.notMatch(err, /an old thing/)
})

t.test('at info only failures are wanted', async t => {
  const { observer } = await connectionLog('info')
  t.same(
    allCauses.filter(cause => observer.wants(cause)).toSorted(),
    [...logged].toSorted(),
  )
})

t.test('at debug every end is wanted, at warn none', async t => {
  const { observer } = await connectionLog('debug')
  t.ok(allCauses.every(cause => observer.wants(cause)))
  const quiet = await connectionLog('warn')
  t.notOk(allCauses.some(cause => quiet.observer.wants(cause)))
})

t.test('failures are at info, all other ends at debug', async t => {
  const { observer, records } = await connectionLog('debug')
  for (const cause of allCauses) observer.connectionClosed(record(cause))
  const infos = records().filter(({ level }) => level === 'info')
  t.same(
    infos.map(({ cause }) => cause),
    allCauses.filter(cause => logged.includes(cause)),
  )
  t.equal(records().length, allCauses.length)
})

t.test('a record has all there is to say about a connection', async t => {
  const { observer, records } = await connectionLog('info')
  observer.connectionClosed(record('sD'))
  const [first = {}] = records()
  delete first['time']
  t.strictSame(first, {
    level: 'info',
    servicePort: 'default/web:http',
    client: '192.0.2.9:40000',
    endpoint: '10.0.0.2:80',
    attempts: [
      { endpoint: '10.0.0.1:80', result: 'refused', ms: 0.123 },
      { endpoint: '10.0.0.2:80', result: 'connected', ms: 1 },
    ],
    bytes: { 'client->backend': 10, 'backend->client': 2000 },
    dialMs: 1.25,
    totalMs: 100,
    cause: 'sD',
    causeText: 'endpoint idle for too long',
    detail: 'ECONNRESET',
    msg: 'connection failed',
  })
})

t.test('of many attempts the first three are told, and how many more', async t => {
  const { observer, records } = await connectionLog('info')
  const attempts = Array.from({ length: 24 }, (_, i) => ({
    endpoint: `10.0.0.${i}:80`,
    result: 'refused',
    ms: 0.1,
  }))
  observer.connectionClosed({ ...record('SC'), attempts })
  observer.connectionClosed({ ...record('SC'), attempts: attempts.slice(0, 3) })
  const [long, short] = records()
  t.strictSame(long?.['attempts'], attempts.slice(0, 3))
  t.equal(long?.['moreAttempts'], 21)
  t.strictSame(short?.['attempts'], attempts.slice(0, 3))
  t.notOk('moreAttempts' in (short ?? {}))
})

t.test('after a burst one failure per second passes and counts the others', async t => {
  const { observer, clock, records } = await connectionLog('info')
  for (let i = 0; i < 15; i += 1) observer.connectionClosed(record('SC'))
  t.equal(records().length, 10)
  clock.advance(999)
  observer.connectionClosed(record('SC'))
  t.equal(records().length, 10)
  clock.advance(1)
  observer.connectionClosed(record('SC'))
  observer.connectionClosed(record('SC'))
  t.equal(records().length, 11)
  t.equal(records()[10]?.['heldBack'], 6)
  clock.advance(1000)
  observer.connectionClosed(record('SC'))
  t.equal(records()[11]?.['heldBack'], 1)
})

t.test('one busy ServicePort does not silence another', async t => {
  const { observer, records } = await connectionLog('info')
  for (let i = 0; i < 50; i += 1) observer.connectionClosed(record('SC', 'a/busy'))
  observer.connectionClosed(record('SC', 'a/calm'))
  t.equal(records().filter(({ servicePort }) => servicePort === 'a/calm').length, 1)
  t.equal(records().length, 11)
})

t.test('when it is quiet again the count is said once and forgotten', async t => {
  const { observer, clock, records } = await connectionLog('info')
  for (let i = 0; i < 13; i += 1) observer.connectionClosed(record('SC'))
  t.equal(clock.waiting, 1)
  clock.advance(5000)
  t.match(records()[10], {
    level: 'info',
    servicePort: 'default/web:http',
    heldBack: 3,
    msg: '3 failed connections were not logged one by one',
  })
  clock.advance(60_000)
  t.equal(records().length, 11)
  t.equal(clock.waiting, 0, 'no timer and so no bucket is left')
  observer.connectionClosed(record('SC'))
  t.notOk('heldBack' in (records()[11] ?? {}))
})

t.test('with debug on nothing is held back', async t => {
  const { observer, records } = await connectionLog('debug')
  for (let i = 0; i < 30; i += 1) observer.connectionClosed(record('SC'))
  t.equal(records().length, 30)
})

t.test('closing says what is held back and leaves no timer', async t => {
  const { observer, clock, records } = await connectionLog('info')
  for (let i = 0; i < 12; i += 1) observer.connectionClosed(record('SC'))
  for (let i = 0; i < 11; i += 1) observer.fault('default/db', new Error('odd'))
  observer.close()
  t.same(
    records()
      .slice(-2)
      .map(({ level, msg }) => [level, msg]),
    [
      ['info', '2 failed connections were not logged one by one'],
      ['error', '1 faults were not logged one by one'],
    ],
  )
  t.equal(clock.waiting, 0)
})

t.test('a fault is an error with its stack', async t => {
  const { observer, records } = await connectionLog('info')
  observer.fault('default/db', new Error('must not happen'))
  t.match(records()[0], {
    level: 'error',
    servicePort: 'default/db',
    err: { message: 'must not happen', stack: /log\.test/ },
  })
})

t.test('a pause of accepting is a warning, its end is not', async t => {
  const { observer, records } = await connectionLog('info')
  observer.acceptPaused(true, 990, 1000)
  observer.acceptPaused(false, 500, 1000)
  t.match(records(), [
    { level: 'warn', used: 990, limit: 1000 },
    { level: 'info', used: 500, limit: 1000 },
  ])
})
