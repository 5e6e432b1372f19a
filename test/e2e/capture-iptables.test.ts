import t from 'tap'
import { whyNoNetns } from '../support/netns.ts'
import { captureMatrixOfIptables } from './parts/capture/iptables-tools.ts'

const why = await whyNoNetns()

t.test('with rules of iptables (nft)', { skip: why !== '' && why }, async t => {
  await captureMatrixOfIptables(t, 'nft')
})
