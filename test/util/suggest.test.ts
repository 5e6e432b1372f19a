import t from 'tap'
import { suggest } from '../../src/util/suggest.ts'

t.test('what was meant is near, or what it begins', async t => {
  t.equal(suggest('stauts', ['status', 'stop']), 'status')
  t.equal(suggest('sta', ['status', 'run']), 'status')
  t.equal(suggest('nothing', ['status', 'run']), undefined)
})

t.test(
  'however long a word is, and however many are known, it takes no time',
  async t => {
    const known = Array.from({ length: 20_000 }, (_, i) => `default/service-${i}:http`)
    const { user, system } = process.cpuUsage()
    t.equal(suggest('a'.repeat(100_000), known), undefined)
    t.equal(suggest('default/servixe-7:http', known), 'default/service-7:http')
    const used = process.cpuUsage()
    // Each would have taken seconds.
    t.ok(used.user + used.system - user - system < 1e6)
  },
)
