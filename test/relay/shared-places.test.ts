import t from 'tap'
import { newSharedPlaces, SharedPlaces } from '../../src/relay/shared-places.ts'

t.test('places are counted over all workers', async t => {
  const all = newSharedPlaces()
  let freed = 0
  const one = new SharedPlaces(all.memory)
  const two = new SharedPlaces(all.memory, () => (freed += 1))
  t.equal(all.taken, 0)
  t.notOk(one.take(0))
  for (const worker of [one, two, two, one]) t.ok(worker.take(4))
  t.notOk(one.take(4))
  t.notOk(two.take(3), 'fewer than have been taken')
  two.free()
  t.equal(all.taken, 3)
  t.ok(one.has(4))
  t.notOk(one.has(3))
  t.ok(two.take(4))
  two.free()
  one.free()
  t.equal(all.taken, 2)
  t.equal(freed, 2, 'those that were given back here')
})
