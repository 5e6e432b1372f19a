import t from 'tap'
import { WorkerSigns } from '../../../../src/relay/engine/shared/worker-signs.ts'
import { SignsOfLife } from '../../../../src/relay/remote/signs-of-life.ts'
import { FakeClock } from '../../../support/fake-clock.ts'

t.test(
  'one that waits for events is not taken to hang, one that was woken is',
  async t => {
    const clock = new FakeClock()
    const worker = new WorkerSigns()
    const seen = new WorkerSigns(worker.memory)
    let silentMs = 0
    const patience = { checkMs: 250, mostSilent: 6, mostAtStart: 120 }
    const signs = new SignsOfLife(
      clock,
      patience,
      () => seen.beats,
      ms => (silentMs = ms),
    )
    t.teardown(() => signs.stop())
    signs.start()
    worker.beat()
    signs.ready()
    worker.markIdle()
    clock.advance(100_000)
    t.equal(silentMs, 0)
    worker.beat()
    t.equal(seen.beats, 2, 'beats go on')
    clock.advance(1500)
    t.equal(silentMs, 0)
    clock.advance(250)
    t.equal(silentMs, 1500)
  },
)
