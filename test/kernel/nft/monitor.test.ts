import { once } from 'node:events'
import t from 'tap'
import { MonitorEvents, spawnMonitor } from '../../../src/kernel/nft/monitor.ts'

const monitorText = `add element ip usher vips { 10.96.0.1 . tcp . 80 : 169.254.77.88 . 1 }
add element ip usher stamp { 0x0000004d }
# new generation 2 by process 11 (nft)
add table ip usher-2
add element ip other stamp { 0x00000001 }
# new generation 3 by process 12 (nft)
delete rule ip6 usher hold handle 24
delete element ip usher stamp { 0x0000004d }
# new generation 4 by process 13 (iptables)
# ERROR: We lost some netlink events!
`

t.test('nftables: what the monitor writes is read however it is cut', async t => {
  for (const size of [1, 7, 50, 5000]) {
    const events = new MonitorEvents(['usher'])
    const pieces = monitorText.match(new RegExp(`[^]{1,${size}}`, 'g')) ?? []
    const [own, other, lost, ...more] = pieces.flatMap(piece => events.read(piece))
    t.match(own, { by: 'nft (process 11)' })
    t.same(typeof own === 'object' && own.touched.get('ip usher')?.stamps, ['0x0000004d'])
    t.match(other, { by: 'iptables (process 13)' })
    const touched = typeof other === 'object' ? other.touched : undefined
    t.same([...(touched?.keys() ?? [])], ['ip6 usher', 'ip usher'])
    t.same(touched?.get('ip usher')?.stamps, [], 'one that goes is nobody’s sign')
    t.equal(lost, 'lost events')
    t.same(more, [])
  }
})

t.test('nftables: a transaction of which nothing is shown is told', async t => {
  const shown = 'add table ip other\n# new generation 3 by process 12 (nft)\n'
  const silent = '# new generation 4 by process 13 (nft)\n'
  t.same(new MonitorEvents(['usher']).read(shown + silent + shown), ['unseen'])
})

t.test('one that can’t be started says so, also where Node throws', async t => {
  for (const argument of ['x', 'x'.repeat(2 ** 20)]) {
    const child = spawnMonitor('/nonexistent', [argument])
    const told = once(child as unknown as EventTarget, 'error')
    const [error] = (await told) as [NodeJS.ErrnoException]
    t.match(error.code, /^(?:ENOENT|E2BIG)$/)
    t.equal(child.kill(), false)
  }
})
