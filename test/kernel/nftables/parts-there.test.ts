import t from 'tap'
import { layoutChain, partsThere } from '../../../src/kernel/nftables/nftables-proxier.ts'

t.test('what a process before has left is told by the names of chains', async t => {
  const fixed = [{ kind: 'chain', name: 'refuse', rules: [] }] as const
  const own = ['cluster-ip-tcp-2', 'external-local-udp-1', 'from-node-tcp-3']
  const names = [...own, 'node-port-external-tcp-2', 'clients-0', 'endpoint-1-web/10s']
  t.same(partsThere(['refuse', 'trace', ...names], fixed), {
    found: [
      ...names.map(name => ({ kind: 'chain', name })),
      { kind: 'set', name: 'affinity-1-web/10s' },
    ],
    foreign: [{ kind: 'chain', name: 'trace' }],
  })
})

t.test('other sets or maps are another layout', async t => {
  const one = layoutChain('add set ip t stamp { type mark; }\n')
  t.match(one, { kind: 'chain', name: /^layout-[\da-f]{16}$/, rules: [] })
  t.same(layoutChain('add set ip t stamp { type mark; }\n'), one)
  t.not(layoutChain('add set ip t stamp { type ifname; }\n').name, one.name)
})
