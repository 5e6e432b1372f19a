import t from 'tap'
import { whyNoNetns } from '../support/netns.ts'
import { captureMatrix } from './parts/capture/matrix.ts'

const why = await whyNoNetns('nft')

t.test('with rules of nftables', { skip: why !== '' && why }, async t => {
  await captureMatrix(t, { capture: 'nftables', manner: 'rules' })
})
