import t from 'tap'
import { manyServicesScenarios } from '../../../bench/scenarios/traffic.ts'

const [manyServices] = manyServicesScenarios

t.test('the Service in the middle of the names has the first address', async t => {
  const backends = {
    endpoints: () => [],
    refusing: () => [],
    silent: { address: '192.0.2.1', port: 1 },
  }
  const names = manyServices?.services?.(backends).map(({ name }) => name) ?? []
  t.equal(names.length, 5002)
  t.equal(new Set(names).size, names.length)
  t.equal(names.toSorted().indexOf(names[0] ?? ''), 2500)
  t.ok(manyServices?.awaited?.every(name => names.includes(name)))
})
