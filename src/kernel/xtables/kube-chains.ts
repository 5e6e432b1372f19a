import { userspaceChains } from './capture-names.ts'

/** Of kube-proxy's userspace mode, whose names Usher's captures have too. */
const ofUserspace: readonly string[] = Object.values(userspaceChains)

/** Of iptables mode, there whatever Services there are; ipvs mode has some of them too. */
export const iptablesChains = {
  services: 'KUBE-SERVICES',
  externalServices: 'KUBE-EXTERNAL-SERVICES',
  nodePorts: 'KUBE-NODEPORTS',
  postrouting: 'KUBE-POSTROUTING',
  markMasq: 'KUBE-MARK-MASQ',
  forward: 'KUBE-FORWARD',
  proxyFirewall: 'KUBE-PROXY-FIREWALL',
  canary: 'KUBE-PROXY-CANARY',
} as const

const { markMasq, canary, ...enteredOfIptables } = iptablesChains

/** Where rules of built-in chains lead to; all of them are in nat or filter. */
const entries: ReadonlySet<string> = new Set([
  ...ofUserspace,
  ...Object.values(enteredOfIptables),
  // Ipvs mode.
  'KUBE-NODE-PORT',
  'KUBE-IPVS-FILTER',
  'KUBE-IPVS-OUT-FILTER',
])

const inner: ReadonlySet<string> = new Set([
  markMasq,
  canary,
  'KUBE-LOAD-BALANCER',
  'KUBE-SOURCE-RANGES-FIREWALL',
  // Ipvs mode before 1.10.
  'KUBE-FIRE-WALL',
  'KUBE-SVC-IPSETS',
])

/**
 * Of one Service or endpoint, with half of a SHA-256 in base32; KUBE-XLB- is of versions up
 * to 1.23.
 */
export const isServiceChain = (chain: string): boolean =>
  /^KUBE-(?:SVC|SVL|EXT|FW|SEP|XLB)-[A-Z2-7]{16}$/.test(chain)

/** A name that kube-proxy never had. */
export const isUsherChain = (chain: string): boolean => chain.startsWith('KUBE-USHER-')

/** Whether a capture of Usher's may have it, and so no kernel mode. */
export const isCaptureChain = (chain: string): boolean =>
  isUsherChain(chain) || ofUserspace.includes(chain)

/**
 * Whether Usher or kube-proxy makes a chain of this name, in any of its versions. By whole
 * names: the kubelet, kube-router and container runtimes have chains that begin with KUBE-
 * too. KUBE-FIREWALL is the kubelet's in filter; in nat it was that of ipvs mode (1.10 to
 * 1.25).
 */
export const isOwnChain = (table: string, chain: string): boolean =>
  isUsherChain(chain) ||
  entries.has(chain) ||
  inner.has(chain) ||
  isServiceChain(chain) ||
  (table === 'nat' && chain === 'KUBE-FIREWALL')

/** The part of a saved rule that decides whose jump it is. */
interface JumpRule {
  readonly chain: string
  readonly target: string
  readonly comment: string
  readonly isBare: boolean
}

/** How the comments of their rules in built-in chains begin. */
const ownComment = /^(?:kubernetes |kube-proxy |handle |Ensure that |usher)/i

/**
 * Whether a rule of a built-in chain is the one by which Usher or kube-proxy enters its own
 * chain. One with matches and without their comment is another program's.
 */
export const isOwnJump = (rule: JumpRule): boolean =>
  isUsherChain(rule.target) ||
  (entries.has(rule.target) && (rule.isBare || ownComment.test(rule.comment)))

/**
 * Whether a rule is one that only Usher's iptables mode writes: kube-proxy has no such jump,
 * and can't delete the chain that it leads to (see docs/modes.md).
 */
export const isUsherJump = (table: string, rule: JumpRule): boolean =>
  table === 'filter' &&
  rule.chain === 'OUTPUT' &&
  rule.target === iptablesChains.externalServices &&
  isOwnJump(rule)

/** Whose chains and jumps are written, repaired and removed. */
export interface Owner {
  /** By whole names. */
  readonly hasChain: (table: string, chain: string) => boolean
  /** Of a rule in another's chain that leads to one of these: whether it goes with them. */
  readonly madeJump: (rule: JumpRule, builtIn: ReadonlySet<string>) => boolean
}

/** The rules of captures: whatever leads to their chains goes with them. */
export const captureOwner: Owner = {
  hasChain: (_table, chain) => isCaptureChain(chain),
  madeJump: () => true,
}

/** Of a kernel mode, whose chains others may lead to. */
export const modeOwner = (hasChain: Owner['hasChain']): Owner => ({
  hasChain,
  madeJump: (rule, builtIn) => builtIn.has(rule.chain) && isOwnJump(rule),
})

/** A mark that the kubelet wrote into this chain up to 1.27, and no other program. */
export const kubeletDropChain = 'KUBE-MARK-DROP'

/**
 * What those kubelets had in common with kube-proxy (KEP-3178). They write it at their
 * start only, and host ports of the runtime rely on it.
 */
export const kubeletShared: readonly string[] = [markMasq, iptablesChains.postrouting]

/**
 * In filter: the kubelet's, in which kube-proxy has written the rule against CVE-2020-8558
 * too since 1.27, chain and all where there is no kubelet.
 */
export const kubeletFirewall = 'KUBE-FIREWALL'

/** The comment of that rule. */
export const sharedFirewallComment = 'block incoming localnet connections'

/** Chains by which it is known that a kubelet runs here (KEP-3178). */
export const kubeletSigns: readonly string[] = [
  'KUBE-KUBELET-CANARY',
  'KUBE-IPTABLES-HINT',
]

/** All but those of one Service or endpoint, and those that only Usher has. */
export const fixedChainNames: readonly string[] = [...entries, ...inner, ...kubeletSigns]
