import t from 'tap'
import { layoutChain, partsThere } from '../../../src/kernel/nftables/parts-there.ts'

t.test('what a process before has left is told by the names of chains', async t => {
  const fixed = [{ kind: 'chain', name: 'refuse', rules: [] }] as const
  t.same(partsThere(['refuse', 'cluster-ip-tcp-2', 'endpoint-1-web/10s'], fixed), [
    { kind: 'chain', name: 'cluster-ip-tcp-2' },
    { kind: 'chain', name: 'endpoint-1-web/10s' },
    { kind: 'set', name: 'affinity-1-web/10s' },
  ])
})

t.test('other sets or maps are another layout', async t => {
  const one = layoutChain('add set ip t stamp { type mark; }\n')
  t.match(one, { kind: 'chain', name: /^layout-[\da-f]{16}$/, rules: [] })
  t.same(layoutChain('add set ip t stamp { type mark; }\n'), one)
  t.not(layoutChain('add set ip t stamp { type ifname; }\n').name, one.name)
})
