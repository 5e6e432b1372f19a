import t from 'tap'
import {
  nodePortCidrs,
  nodePortCidrsOfAnyNode,
} from '../../src/kernel/node-port-cidrs.ts'

type Cidrs = readonly string[] | undefined

const node = ['192.0.2.10', '2001:db8::10']

const rows: readonly (readonly [
  name: string,
  values: readonly string[],
  nodeAddresses: readonly string[],
  v4: Cidrs,
  v6: Cidrs,
])[] = [
  ['nothing: all', [], node, undefined, undefined],
  ['all', ['all'], node, undefined, undefined],
  ['a zero CIDR', ['0.0.0.0/0', '10.0.0.0/8', '::/0'], node, undefined, undefined],
  [
    'CIDRs, host bits cleared',
    ['10.1.2.3/8', 'FD00::1/8'],
    [],
    ['10.0.0.0/8'],
    ['fd00::/8'],
  ],
  ['one family: the other is all', ['10.0.0.0/8'], node, ['10.0.0.0/8'], undefined],
  ['twice the same', ['10.0.0.1/8', '10.0.0.0/8'], [], ['10.0.0.0/8'], undefined],
  ['sorted', ['11.0.0.0/8', '10.0.0.0/8'], [], ['10.0.0.0/8', '11.0.0.0/8'], undefined],
  ['primary', ['primary'], node, ['192.0.2.10/32'], ['2001:db8::10/128']],
  ['primary, IPv4 only', ['primary'], ['192.0.2.10'], ['192.0.2.10/32'], undefined],
  ['primary, unknown', ['primary'], [], undefined, undefined],
  ['primary, loopback', ['primary'], ['127.0.0.1', '::1'], undefined, undefined],
  ['primary, wildcard', ['primary'], ['0.0.0.0', '::'], undefined, undefined],
  ['localhost', ['localhost'], node, ['127.0.0.0/8'], ['::1/128']],
  [
    'primary and localhost',
    ['primary', 'localhost'],
    node,
    ['127.0.0.0/8', '192.0.2.10/32'],
    ['2001:db8::10/128', '::1/128'],
  ],
  ['primary and all', ['primary', 'all'], node, undefined, undefined],
  [
    'primary, unknown, and localhost',
    ['primary', 'localhost'],
    [],
    ['127.0.0.0/8'],
    ['::1/128'],
  ],
]

t.test('node port addresses', async t => {
  t.test('--nodeport-addresses says which addresses answer node ports', async t => {
    for (const [name, values, nodeAddresses, v4, v6] of rows) {
      const of = nodePortCidrs(values, nodeAddresses)
      t.same([of('IPv4'), of('IPv6')], [v4, v6], name)
    }
  })

  t.test('whichever node it is, its primary address is not loopback', async t => {
    for (const values of [[], ['all'], ['primary', 'all'], ['fd00::/8']])
      t.equal(nodePortCidrsOfAnyNode(values), undefined, values.join())
    t.notMatch(nodePortCidrsOfAnyNode(['primary']), ['127.0.0.0/8'])
    t.equal(nodePortCidrsOfAnyNode(['primary'])?.length, 1)
    t.match(nodePortCidrsOfAnyNode(['primary', 'localhost']), ['127.0.0.0/8'])
  })
})
