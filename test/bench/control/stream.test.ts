import t from 'tap'
import { systemClock as clock } from '../../../src/util/clock.ts'
import { stream } from '../../../bench/control/stream.ts'

const wish = { seconds: 0.2, perSecond: 200, minSyncMs: 0 }

t.test('each change is written once, those that come meanwhile together', async t => {
  const [made, written]: [number[], number[]] = [[], []]
  const sync = async (): Promise<void> => {
    const taken = made.length
    await new Promise(resolve => setTimeout(resolve, 30))
    written.push(taken)
  }
  const change = (n: number): void => void made.push(n)
  const done = await stream({ clock, change, sync }, wish)
  t.same(
    made,
    Array.from({ length: 40 }, (_, n) => n),
  )
  t.equal(done.appliedMs.length, 40)
  t.equal(done.syncs, written.length)
  t.equal(written.at(-1), 40, 'the last sync saw all')
  t.ok(done.syncs < 40, `${done.syncs} syncs`)
  t.ok(done.appliedMs.every(ms => ms >= 0))
})

t.test('a sync that fails ends it', async t => {
  const sync = () => Promise.reject(new Error('no, thanks'))
  await t.rejects(stream({ clock, change: () => {}, sync }, wish), /no, thanks/)
})
