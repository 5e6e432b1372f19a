import { netnsProblem } from '../../support/netns.ts'

const why = await netnsProblem('iptables')

/** Of tests that need namespaces; asked for once in a process. */
export const skip = { skip: why !== '' && why }
