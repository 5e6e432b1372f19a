import t from 'tap'
import { whyNoNetns } from '../support/netns.ts'
import { iptablesTools } from './parts/capture/iptables-tools.ts'
import { restartsUnderLoad } from './parts/capture/restarts.ts'

const why = await whyNoNetns('nft', 'iptables')

// They mostly wait: for SYNs to come again.
t.jobs = 3

t.test('restarts with rules of nftables', { skip: why !== '' && why }, async t => {
  await restartsUnderLoad(t, { capture: 'nftables' })
})

for (const backEnd of ['nft', 'legacy'] as const)
  t.test(`restarts with iptables (${backEnd})`, { skip: why !== '' && why }, async t => {
    const path = await iptablesTools(t, backEnd)
    const label = `iptables-${backEnd}`
    await restartsUnderLoad(t, { capture: 'iptables', label, backEnd, path })
  })
