import t, { type Test } from 'tap'
import { SocketLock } from '../../src/kernel/keeper/host-lock.ts'
import { HostTurn } from '../../src/kernel/keeper/host-turn.ts'
import { systemClock } from '../../src/util/clock.ts'
import { until } from '../support/until.ts'

const skip = process.platform !== 'linux' && 'a lock is an abstract socket'

/** Of one process, as far as the lock goes: two of one name are two processes. */
const turnOf = (t: Test, name: string): HostTurn => {
  const lock = new SocketLock({
    clock: systemClock,
    name,
    self: 'a test',
    waiting: () => {},
  })
  t.teardown(() => lock.release())
  return new HostTurn({
    clock: systemClock,
    resync: () => {},
    lock,
    tools: { stop: async () => {}, allow: () => {} },
    of: 'test',
    removeOthers: async () => [],
  })
}

/** What has been done, in its order. */
const workers = (t: Test) => {
  const name = `usher-test-${process.pid}-${Math.random()}`
  const [one, other] = [turnOf(t, name), turnOf(t, name)]
  const done: string[] = []
  const work = (turn: HostTurn, what: string): Promise<void> =>
    turn.take(async () => void done.push(what))
  return { one, other, done, work }
}

t.test('a turn that is lent', { skip }, async t => {
  t.test('is the other process’s, whoever asks first', async t => {
    const { one, other, done, work } = workers(t)
    await work(one, 'first')
    await one.lend()
    const later = work(one, 'later')
    later.catch(() => {})
    await work(other, 'other')
    t.strictSame(done, ['first', 'other'])
    await one.end()
    await t.rejects(later, /has ended/)
    await work(other, 'other goes on')
    await other.end()
    await other.giveUp()
  })

  t.test('comes back when the other one does not want it', async t => {
    const { one, other, done, work } = workers(t)
    await work(one, 'first')
    const takeBack = await one.lend()
    const later = work(one, 'later')
    await work(other, 'other')
    takeBack()
    await other.end()
    await other.giveUp()
    await later
    t.strictSame(done, ['first', 'other', 'later'])
    await one.end()
    await one.giveUp()
  })

  t.test('may be lent once more while something waits for it', async t => {
    const { one, other, done, work } = workers(t)
    await work(one, 'first')
    const takeBack = await one.lend()
    await work(other, 'other')
    takeBack()
    const later = work(one, 'later')
    // It waits for the turn of the other one, which asks again.
    await one.lend()
    await work(other, 'other goes on')
    await other.end()
    await other.giveUp()
    await one.end()
    await later.catch(() => {})
    t.notOk(done.includes('later'))
  })

  t.test('waits for what is under way', async t => {
    const { one, other, done, work } = workers(t)
    let finish: () => void = () => {}
    const long = one.take(() => new Promise<void>(resolve => (finish = resolve)))
    await until('it has begun', () => one.hasBegun)
    const lent = one.lend()
    const others = work(other, 'other')
    t.strictSame(done, [])
    finish()
    await long
    await lent
    await others
    t.strictSame(done, ['other'])
    await one.end()
    await other.end()
    await other.giveUp()
  })
})
