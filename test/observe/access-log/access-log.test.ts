import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { AccessLogOptions } from '../../../src/model/access-log.ts'
import type { ServicePort, Snapshot } from '../../../src/model/snapshot.ts'
import { AccessLog } from '../../../src/observe/access-log/access-log.ts'
import type { Log } from '../../../src/observe/log.ts'
import { systemClock } from '../../../src/util/clock.ts'
import { until } from '../../support/until.ts'

const setUp = (t: Test) => {
  const said: string[] = []
  const say = (_fields: object, message: string): void => void said.push(message)
  const log: Log = {
    debug: say,
    info: say,
    warn: say,
    error: say,
    isLevelEnabled: () => true,
    child: () => log,
  }
  const printed: string[] = []
  const refuses = { now: false }
  const stdout = () => ({
    write: (line: string, lost?: () => void) => {
      if (refuses.now) lost?.()
      else printed.push(line)
    },
  })
  const accessLog = new AccessLog({ log, clock: systemClock, stdout })
  t.teardown(() => accessLog.close())
  return { accessLog, said, printed, refuses }
}

const snapshotOf = (...logs: readonly (AccessLogOptions | undefined)[]): Snapshot =>
  ({
    servicePorts: new Map(
      logs.map((accessLog, i) => [`${i}`, { name: `r${i}`, accessLog } as ServicePort]),
    ),
  }) as Partial<Snapshot> as Snapshot

const optionsTo = (to: string): AccessLogOptions => ({ format: 'json', to, route: 'r' })

const batch = (to: string, text: string, lost = 0) => ({
  listener: 'r0',
  to,
  text,
  lines: text.split('\n').length - 1,
  lost,
})

t.test('lines go where they are to, and two routes share a file', async t => {
  const { accessLog, printed, said } = setUp(t)
  const path = join(t.testdir(), 'db.log')
  const to = `file:${path}`
  accessLog.want([snapshotOf(optionsTo(to), undefined, optionsTo(to))])
  accessLog.lines(batch(to, 'one\n'))
  accessLog.lines({ ...batch(to, 'two\n'), listener: 'r2' })
  accessLog.lines(batch('stdout', 'three\n'))
  await until('both are there', async () =>
    (await readFile(path, 'utf8').catch(() => '')).includes('two'),
  )
  t.equal(await readFile(path, 'utf8'), 'one\ntwo\n')
  t.strictSame(printed, ['three\n'])
  t.strictSame([said, accessLog.problems()], [[], []])
  t.strictSame(Object.fromEntries(accessLog.dropped), { r0: 0, r2: 0 })
})

t.test('what is lost is counted for each, and said once', async t => {
  const { accessLog, refuses, said } = setUp(t)
  accessLog.want([snapshotOf(optionsTo('stdout'))])
  refuses.now = true
  accessLog.lines(batch('stdout', 'one\ntwo\n'))
  accessLog.lines(batch('stdout', '', 3))
  accessLog.lines(batch('stdout', '', 4))
  t.strictSame(Object.fromEntries(accessLog.dropped), { r0: 9 })
  t.strictSame(said, ['access log lines were lost in the relay'])
})

t.test('a destination that does not work is a problem while it is wanted', async t => {
  const { accessLog, said } = setUp(t)
  const directory = join(t.testdir(), 'missing')
  const to = `file:${directory}/db.log`
  accessLog.want([snapshotOf(optionsTo(to))])
  await until('it is one', () => accessLog.problems().length === 1)
  t.strictSame(accessLog.problems(), [
    {
      object: 'access log',
      field: to,
      message: `there is no directory ${directory}; make it`,
    },
  ])
  t.strictSame(said, [
    "the access log can't be written: connections continue, lines are buffered",
  ])
  accessLog.lines(batch(to, 'one\n'))
  accessLog.want([snapshotOf()])
  t.strictSame(accessLog.problems(), [])
  await until('what waited is lost', () => accessLog.dropped.get('r0') === 1)
})

t.test('what is wrong with a destination is no problem once nobody wants it', async t => {
  const { accessLog, said } = setUp(t)
  const directory = join(t.testdir(), 'missing')
  const to = `file:${join(directory, 'db.log')}`
  accessLog.want([snapshotOf(optionsTo(to))])
  await until('it is noticed', () => accessLog.problems().length === 1)
  accessLog.lines(batch(to, 'one\n'))
  // What waits is tried once more, and now it fails for another reason.
  await writeFile(directory, '')
  accessLog.want([snapshotOf(undefined)])
  await until('it is given up', () => accessLog.dropped.get('r0') === 1)
  t.strictSame(accessLog.problems(), [])
  t.equal(said.length, 1)
})
