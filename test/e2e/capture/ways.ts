import type { IptablesBackEnd } from './foreign.ts'
import type { Manner } from './oracle-terms.ts'

/** A way to carry Services, as Usher is told of it. */
export interface Way {
  /** In names of namespaces, and in results. */
  readonly label: string
  readonly flags: readonly string[]
  readonly manner: Manner
  /** Which tool is `iptables` on the node. */
  readonly backEnd: IptablesBackEnd
  /** Lets the questions of load balancers through a packet filter of iptables. */
  readonly opensFilter: boolean
}

const capture = (name: string): readonly string[] => [
  '--proxy-mode=userspace',
  `--capture=${name}`,
]

export const nftablesCapture: Way = {
  label: 'nftables',
  flags: capture('nftables'),
  manner: 'rules',
  backEnd: 'nft',
  // No table of nftables can let in what another drops.
  opensFilter: false,
}

export const localCapture: Way = {
  label: 'local',
  flags: capture('local'),
  manner: 'local',
  backEnd: 'nft',
  opensFilter: false,
}

export const iptablesCapture = (backEnd: IptablesBackEnd): Way => ({
  label: `iptables-${backEnd}`,
  flags: capture('iptables'),
  manner: 'rules',
  backEnd,
  opensFilter: true,
})

export const iptablesMode = (backEnd: IptablesBackEnd): Way => ({
  label: `mode-iptables-${backEnd}`,
  flags: ['--proxy-mode=iptables'],
  manner: 'iptables',
  backEnd,
  opensFilter: true,
})

export const nftablesMode: Way = {
  label: 'mode-nftables',
  flags: ['--proxy-mode=nftables'],
  manner: 'nftables',
  backEnd: 'nft',
  opensFilter: false,
}

/** Whose rules carry the traffic, also without Usher. */
export const isOfKernel = ({ manner }: Way): boolean =>
  manner === 'iptables' || manner === 'nftables'

/** For clients that dial node ports on any address of the node, whatever is the default. */
export const allNodePorts = ({ manner }: Way): readonly string[] =>
  manner === 'nftables' ? ['--nodeport-addresses=all'] : []
