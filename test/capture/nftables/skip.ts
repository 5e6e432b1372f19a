import { whyNoNetns } from '../../support/netns.ts'

const why = await whyNoNetns('nft')
export const skip: string | false = why !== '' && why
