import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { noticesTo } from '../../src/observe/notify-socket.ts'
import { ServiceManager, watchdogMs } from '../../src/observe/service-manager.ts'
import { recordingLog } from '../support/recording-log.ts'
import { missingPrograms } from '../support/installed.ts'
import { linuxRelaySkip } from '../support/linux-only.ts'
import { receiveNotices, noticesProblem } from '../support/notices.ts'
import { until } from '../support/until.ts'

/** A manager that is told nothing but by `said`, a message each. */
const told = (given: { isLive?: boolean; watchdogMs?: number } = {}) => {
  const said: string[] = []
  const state = { sentence: 'well', isLive: given.isLive ?? true }
  const manager = new ServiceManager({
    notify: (...lines) => {
      said.push(lines.join(' '))
      return Promise.resolve()
    },
    sentence: () => state.sentence,
    isLive: () => state.isLive,
    watchdogMs: given.watchdogMs,
  })
  t.teardown(() => manager.close())
  return { said, state, manager }
}

const noFfi = () => {
  throw new Error('koffi is not installed')
}

t.test('a process that is not live gives no sign of life', async t => {
  const { said, state, manager } = told({ isLive: false, watchdogMs: 30 })
  state.sentence = 'worker 1 of the relay gives no sign of life'
  await until('its state is said', () => said.length > 1)
  t.strictSame(said, ['STATUS=well', `STATUS=${state.sentence}`])
  state.isLive = true
  await until('it gives one', () => said.includes('WATCHDOG=1'))
  state.isLive = false
  manager.stopping(0)
  const { length } = said
  await until('and while it drains', () => said.length > length)
  t.strictSame(said.at(-1), 'WATCHDOG=1')
})

t.test('a state has one line, and is said when it is another', async t => {
  const { said, state, manager } = told()
  state.sentence = 'two\nREADY=1'
  manager.ready()
  manager.ready()
  const status = String.raw`STATUS=two\u000aREADY=1`
  t.strictSame(said, ['STATUS=well', `READY=1 ${status}`, 'READY=1'])
})

t.test(
  'reloads at the same time end together, and none is told before or after',
  async t => {
    const { said, manager } = told()
    await manager.whileReloading(Promise.resolve())
    manager.ready()
    const both = [
      manager.whileReloading(Promise.resolve()),
      manager.whileReloading(Promise.reject(new Error('unreadable'))),
    ]
    await Promise.all(both)
    const words = said.map(text => text.split(' ')[0])
    t.strictSame(words, [
      'STATUS=well',
      'READY=1',
      'RELOADING=1',
      'RELOADING=1',
      'READY=1',
    ])
    manager.stopping(1000)
    const { length } = said
    await manager.whileReloading(Promise.resolve())
    t.equal(said.length, length)
  },
)

t.test('whom the watchdog is for', async t => {
  const env = { WATCHDOG_USEC: '30000000', WATCHDOG_PID: String(process.pid) }
  t.equal(watchdogMs({ ...env }), 30_000)
  t.equal(watchdogMs({ WATCHDOG_USEC: '30000000' }), 30_000)
  t.equal(watchdogMs({ ...env, WATCHDOG_PID: '1' }), undefined)
  t.equal(watchdogMs({}), undefined)
  t.equal(watchdogMs({ WATCHDOG_USEC: 'x' }), undefined)
  watchdogMs(env)
  t.strictSame(env, {}, 'nobody else finds it')
})

t.test('no service manager, or no socket that can be one', async t => {
  const log = recordingLog([])
  t.equal(noticesTo({}, log), undefined)
  t.equal(noticesTo({ NOTIFY_SOCKET: 'vsock:2:1234' }, log), undefined)
})

t.test(
  'a socket that nobody listens on is logged once',
  { skip: linuxRelaySkip() },
  async t => {
    const said: string[] = []
    const log = recordingLog(said)
    const env = { NOTIFY_SOCKET: '@usher-nobody' }
    const tell = noticesTo(env, log)
    await tell?.('READY=1')
    await tell?.('READY=1')
    t.strictSame(env, {}, 'what Usher starts does not find it')
    t.strictSame(said, ['the service manager could not be notified'])
  },
)

t.test(
  'without FFI a program sends',
  {
    skip: noticesProblem || missingPrograms('systemd-notify'),
  },
  async t => {
    const folder = await mkdtemp(join(tmpdir(), 'usher-notify-'))
    t.teardown(() => rm(folder, { recursive: true }))
    const socket = join(folder, 'notify')
    const { heard, messages } = await receiveNotices(t, socket)
    const said: string[] = []
    const log = recordingLog(said)
    const tell = noticesTo({ NOTIFY_SOCKET: socket }, log, noFfi)
    await tell?.('RELOADING=1', 'STATUS=two words')
    await heard(/^RELOADING=1$/)
    t.match(messages[0], ['RELOADING=1', 'STATUS=two words'])
    t.strictSame(said, [])
  },
)
