import t from 'tap'
import { newSharedPlaces, SharedPlaces } from '../../src/relay/shared-places.ts'

t.test(
  'places are counted over all workers, and those of a lost one are free',
  async t => {
    const all = newSharedPlaces(2)
    const [one, two] = [1, 2].map(worker => new SharedPlaces(all.memory, worker))
    if (one === undefined || two === undefined) return
    t.equal(all.taken, 0)
    t.notOk(one.take(0))
    for (const worker of [one, two, two, one]) t.ok(worker.take(4))
    t.notOk(one.take(4))
    t.notOk(two.take(3), 'fewer than have been taken')
    two.free()
    t.equal(all.taken, 3)
    t.ok(two.take(4))
    two.free()
    one.free()
    t.equal(all.taken, 2)
    all.lost(2)
    t.equal(all.taken, 1)
    all.lost(2)
    t.equal(all.taken, 1, 'each is given back once')
    // Another thread has its place in the memory now.
    t.ok(two.take(2))
    all.lost(1)
    t.equal(all.taken, 1)
    two.free()
    t.equal(all.taken, 0)
  },
)
