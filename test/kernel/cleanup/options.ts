import { whyNoNetns } from '../../support/netns.ts'

const why = await whyNoNetns('nft', 'iptables', 'ipset')

/** For tests in namespaces of their own; asked once. */
export const options = { skip: why !== '' && why }
