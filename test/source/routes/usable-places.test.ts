import t from 'tap'
import { usable } from '../../../src/source/routes/host-watch.ts'

t.test('what a place is does not depend on the order of the answer', async t => {
  const places = [
    { address: '10.0.0.1', port: 1, tier: 0, weight: 10 },
    { address: '10.0.0.1', port: 1, tier: 0, weight: 20 },
    { address: '10.0.0.1', port: 1, tier: 1, weight: 90 },
    { address: '10.0.0.1', port: 2, tier: 1, weight: 5 },
  ]
  for (const order of [places, places.toReversed()]) {
    const found = usable({ places: order, ttlMs: 1000, faults: [] })
    t.strictSame(found, { places: [places[1], places[3]], faults: [] })
  }
})
