import { whyNoNetns } from '../support/netns.ts'
import { packetTests } from './parts/nftables-packets.ts'
import { probeTests } from './parts/nftables-probe.ts'
import { pureTests } from './parts/nftables-pure.ts'
import { tableTests } from './parts/nftables-table.ts'

const why = await whyNoNetns('nft')
const skip = why !== '' && why

pureTests()
probeTests(skip)
tableTests(skip)
packetTests(skip)
