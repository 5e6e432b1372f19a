import t from 'tap'
import { whyNoNetns } from '../support/netns.ts'
import { iptablesTools } from './parts/capture/iptables-tools.ts'
import { captureMatrix } from './parts/capture/matrix.ts'

const why = await whyNoNetns('iptables', 'nft')
const backEnd = 'nft'
const label = `iptables-${backEnd}`

t.test(`with rules of ${label}`, { skip: why !== '' && why }, async t => {
  const path = await iptablesTools(t, backEnd)
  await captureMatrix(t, { capture: 'iptables', manner: 'rules', label, backEnd, path })
})
