import t from 'tap'
import { whyNoNetns } from '../support/netns.ts'
import { iptablesTools } from './parts/capture/iptables-tools.ts'
import { captureMatrix } from './parts/capture/matrix.ts'

const why = await whyNoNetns()

for (const backEnd of ['nft', 'legacy'] as const)
  t.test(`with rules of iptables (${backEnd})`, { skip: why !== '' && why }, async t => {
    const path = await iptablesTools(t, backEnd)
    const label = `iptables-${backEnd}`
    await captureMatrix(t, { capture: 'iptables', manner: 'rules', label, backEnd, path })
  })
