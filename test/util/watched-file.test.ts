import t from 'tap'
import { Poller } from '../../src/util/watched-file.ts'
import { FakeClock } from '../support/fake-clock.ts'

/** A poller whose looks end when they are told to. */
const fixture = () => {
  const clock = new FakeClock()
  const ends: (() => void)[] = []
  const look = () => new Promise<void>(resolve => ends.push(resolve))
  const poller = new Poller(clock, 100, look)
  const end = async (): Promise<void> => {
    const { looking } = poller
    ends.at(-1)?.()
    await looking
    await new Promise<void>(resolve => setImmediate(resolve))
  }
  return { clock, poller, end, looks: () => ends.length }
}

t.test('from the end of a look to the next there is a pause', async t => {
  const { clock, poller, end, looks } = fixture()
  await poller.now()
  t.equal(looks(), 0, 'not before it is started')
  poller.start()
  clock.advance(100)
  t.equal(looks(), 1)
  clock.advance(1000)
  t.equal(looks(), 1, 'one at a time')
  await end()
  t.equal(poller.looking, undefined)
  clock.advance(99)
  t.equal(looks(), 1)
  clock.advance(1)
  t.equal(looks(), 2)
})

t.test('it looks when it is asked to, and once more after a look', async t => {
  const { clock, poller, end, looks } = fixture()
  poller.start()
  void poller.now()
  t.equal(looks(), 1, 'at once')
  void poller.now()
  void poller.now()
  t.equal(looks(), 1)
  await end()
  t.equal(looks(), 2)
  await end()
  t.equal(looks(), 2)
  t.equal(clock.waiting, 1)
})

t.test('after close it looks no more', async t => {
  const { clock, poller, end, looks } = fixture()
  poller.start()
  void poller.now()
  void poller.now()
  poller.close()
  await end()
  t.equal(looks(), 1)
  poller.start()
  await poller.now()
  t.strictSame([looks(), clock.waiting, poller.isOn], [1, 0, false])
})
