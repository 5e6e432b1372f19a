import t, { type Test } from 'tap'
import { SignsOfLife } from '../../../src/relay/remote/signs-of-life.ts'
import { FakeClock } from '../../support/fake-clock.ts'

const checkMs = 250

/** What is watched, and how long it was silent when that was told. */
const watched = (t: Test) => {
  const clock = new FakeClock()
  const worker = { beats: 0 }
  const told: number[] = []
  const patience = { checkMs, mostSilent: 6, mostAtStart: 120 }
  const beats = (): number => worker.beats
  const signs = new SignsOfLife(clock, patience, beats, ms => void told.push(ms))
  signs.start()
  t.teardown(() => signs.stop())
  return { clock, worker, signs, told }
}

t.test('one that was slow to start is not silent when it is ready', async t => {
  const { clock, worker, signs, told } = watched(t)
  clock.advance(5 * checkMs)
  signs.ready()
  clock.advance(5 * checkMs)
  t.strictSame(told, [])
  worker.beats += 1
  clock.advance(6 * checkMs)
  t.strictSame(told, [])
  clock.advance(60 * checkMs)
  t.strictSame(told, [1500], 'once')
})

t.test('one that hangs right after its start is noticed', async t => {
  const { clock, signs, told } = watched(t)
  clock.advance(20 * checkMs)
  signs.ready()
  clock.advance(8 * checkMs)
  t.strictSame(told, [1500])
})

t.test('so is one that never gets ready', async t => {
  const { clock, told } = watched(t)
  clock.advance(120 * checkMs)
  t.strictSame(told, [])
  clock.advance(checkMs)
  t.strictSame(told, [30_000])
})

t.test('nothing is told after the end', async t => {
  const { clock, signs, told } = watched(t)
  clock.advance(checkMs)
  signs.stop()
  clock.advance(200 * checkMs)
  t.strictSame([told, clock.waiting], [[], 0])
})
