import { whyNoNetns } from '../support/netns.ts'
import { packetTests } from './parts/nftables-packets.ts'

const why = await whyNoNetns()
const skip = why !== '' && why

packetTests(skip)
