import { netnsProblem } from '../../support/netns.ts'

const why = await netnsProblem('nft')
export const skip: string | false = why !== '' && why
