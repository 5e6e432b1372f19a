import t from 'tap'
import { clientsChain, disjoint } from '../../../src/kernel/nft/clients.ts'

t.test('nftables: CIDRs within others are left out', async t => {
  t.same(disjoint(['10.1.0.0/16', '11.0.0.0/8', '10.0.0.0/8', '10.1.0.0/16']), [
    '10.0.0.0/8',
    '11.0.0.0/8',
  ])
  t.same(disjoint(['fd00:1::/32', 'fd00::/8', '::/128']), ['::/128', 'fd00::/8'])
  t.equal(
    clientsChain(['10.0.0.0/8', '11.0.0.0/8']),
    clientsChain(['11.0.0.0/8', '10.0.0.0/8']),
  )
})
