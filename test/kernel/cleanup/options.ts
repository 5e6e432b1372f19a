import { netnsProblem } from '../../support/netns.ts'

const why = await netnsProblem('nft', 'iptables', 'ipset')

/** For tests in namespaces of their own; asked once. */
export const options = { skip: why !== '' && why }
