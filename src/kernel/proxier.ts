import type { Problem, ServicePort, Snapshot, Vip } from '../model/snapshot.ts'
import type { IpFamily } from '../util/ip.ts'
import type { Probe } from './probe.ts'

/**
 * Which packets come from this node's pods (--detect-local-mode): they are not
 * masqueraded on their way to a ClusterIP, and externalTrafficPolicy spares them. `none`:
 * that is not known.
 */
export type LocalDetector =
  | { readonly by: 'none' }
  /** Canonical, of the proxier's family; never empty. */
  | { readonly by: 'source'; readonly cidrs: readonly string[] }
  | { readonly by: 'bridge'; readonly name: string }
  | { readonly by: 'interface prefix'; readonly prefix: string }

/** What the rules of one family go by besides Services; plain data, compared by value. */
export interface KernelSettings {
  readonly masqueradeAll: boolean
  /** The mark of packets to masquerade is `1 << masqueradeBit`. */
  readonly masqueradeBit: number
  /** Node ports on 127.0.0.1; of no meaning to IPv6, and to ipvs. */
  readonly localhostNodePorts: boolean
  readonly localDetector: LocalDetector
  /**
   * Canonical CIDRs; those of the node's addresses that are in one answer node ports.
   * Undefined: all of them.
   */
  readonly nodePortCidrs: readonly string[] | undefined
  /** Those of the host's interfaces, without loopback's. */
  readonly nodeAddresses: readonly string[]
  /** Devices between which a flowtable forwards, in nftables mode; none: there is no such table. */
  readonly flowtableDevices: readonly string[]
  /** This node's; '' when it is not known. */
  readonly nodeName: string
  /** Canonical; the ranges that ClusterIPs are taken from, as far as they are known. */
  readonly serviceCidrs: readonly string[]
  /** Where ServicePorts may be steered to the relay (`ServicePort.steeredTo`); undefined: none is. */
  readonly relay?: RelaySettings | undefined
}

export interface RelaySettings {
  /** `alone`: the relay is the only endpoint of all ServicePorts, as in userspace mode; else of some. */
  readonly serves: 'alone' | 'beside endpoints'
  /**
   * Canonical CIDRs of the pods that externalTrafficPolicy Local spares. Those of this node alone:
   * the relay's answer to a pod of another node would go past this node's NAT.
   */
  readonly nodePods: readonly string[]
}

/** Those of a node of which nothing is known, with kube-proxy's mark. */
export const plainSettings: KernelSettings = {
  masqueradeAll: false,
  masqueradeBit: 14,
  localhostNodePorts: false,
  localDetector: { by: 'none' },
  nodePortCidrs: undefined,
  nodeAddresses: [],
  flowtableDevices: [],
  nodeName: '',
  serviceCidrs: [],
}

/** How many rules there are, and how many of them the last sync wrote. */
export interface RuleCount {
  readonly total: number
  readonly written: number
}

/** Of iptables, by table. */
export type RuleCounts = Readonly<Record<'filter' | 'nat', RuleCount>>

/** What a sync did. */
export interface KernelSync {
  /** `nothing`: all was as it should be. */
  readonly work: 'nothing' | 'partial' | 'full'
  /** Of a kernel mode. */
  readonly rules?: RuleCounts
}

/** Where something is in the kernel, and the command that shows it. */
export interface InspectCommand {
  readonly what: string
  readonly command: string
}

/** What begins `InspectCommand.what` where the kernel remembers which endpoint a client had. */
export const boundClients = 'clients bound by affinity'

/**
 * The Services of one IP family in the kernel (kube-proxy's word), by one kernel mode; or by a
 * capture, whose Services have the relay for their only endpoint. Calls don't overlap.
 */
export interface Proxier {
  /**
   * Makes the kernel equal to what is wanted; costs what changed since the last call, by
   * `===` of ServicePorts. Old rules hold until the new ones do, also those of an earlier
   * process or of another mode. Rejects with ToolError; the next call then writes all.
   */
  sync(snapshot: Snapshot, settings: KernelSettings): Promise<KernelSync>
  /** The next sync writes all: what is in the kernel is not known any more. */
  forget(): void
  /** What of the last sync could not be honoured. */
  problems(): readonly Problem[]
  /**
   * Calls `damaged` soon (within 5 s) after another program has changed what was written,
   * with what is wrong in a few words; until the returned function is called.
   */
  watch(damaged: (what: string) => void): () => void
  /** Where a client of a VIP is led by, in what was written last; none while that is not known. */
  inspectCommands?(servicePort: ServicePort, vip: Vip): readonly InspectCommand[]
  /**
   * Once it is not watched any more: ends what it has going on (timers), and touches nothing
   * from then on. Rules stay.
   */
  close(): void
}

/** Called with what a proxier can't give as a result. */
export interface ProxierObserver {
  /** A restore failed; `partial`: a full sync follows. */
  restoreFailed(family: IpFamily, work: 'partial' | 'full'): void
  /** Something that can be done without did not work; '' when it does again. */
  failed(what: string, reason: string): void
}

/** A way to have Services in the kernel. */
export interface ProxierKind {
  readonly name: 'nftables' | 'iptables' | 'ipvs'
  /**
   * Whether it works here, found out by really doing it and leaving nothing behind
   * (but for modules of the kernel's that it loaded). Never rejects.
   */
  probe(family: IpFamily): Promise<Probe>
  proxier(family: IpFamily): Proxier
  /**
   * What of all that Usher and kube-proxy may leave on a node is this kind's own, and so no
   * leftover while it runs. By whole names.
   */
  readonly owns: {
    readonly chain: (table: string, chain: string) => boolean
    /** Tables of nftables, of the families ip and ip6. */
    readonly nftablesTable: (name: string) => boolean
    /** Virtual servers, ipsets, and the device kube-ipvs0. */
    readonly ipvs: boolean
  }
}
