import type { Placement } from '../capture/capture.ts'
import type { InspectCommand } from '../kernel/proxier.ts'
import type { Problem, ServicePort, Snapshot, Vip } from '../model/snapshot.ts'
import type { DrainResult } from '../relay/relay.ts'
import type { IpvsOptions } from '../kernel/ipvs/ipvs-deps.ts'

/** Ways to have the kernel carry traffic, best first where several work. */
export const kernelModeNames = ['nftables', 'ipvs', 'iptables'] as const

/** All that can be asked for. */
export const modeNames = [...kernelModeNames, 'userspace'] as const

/** As `/proxyMode` says it. */
export type ModeName = (typeof modeNames)[number]

export const isModeName = (text: string): text is ModeName =>
  modeNames.some(name => name === text)

/** How often the wanted state is applied. Milliseconds; see `SyncRunner`. */
export interface Periods {
  readonly syncPeriod: number
  readonly minSyncPeriod: number
}

/** What carries the traffic of Services. Calls of `sync` don't overlap. */
export interface Mode {
  readonly name: ModeName
  /** How each VIP of the last sync is served. */
  readonly placements: readonly Placement[]
  /** What of the last sync could not be honoured. */
  readonly problems: readonly Problem[]
  /**
   * Makes the world equal to the wanted state of all families. Costs what changed, by
   * `===` of ServicePorts. Rejects when that failed, and is then to be called again.
   */
  sync(snapshots: readonly Snapshot[]): Promise<void>
  /** Of a mode whose rules lead clients to endpoints: see `Proxier.inspectCommands`. */
  inspectCommands?(servicePort: ServicePort, vip: Vip): readonly InspectCommand[]
  /**
   * Another Usher is about to take this one's place: it may change the host, and what is there then is its
   * own, at the end of this one, too. Resolves with what takes that back, if it does not come.
   */
  lend(): Promise<() => void>
  /** Stops taking new clients, lets open connections end, resets the rest after `ms`. */
  drain(ms: number): Promise<DrainResult>
  /**
   * After `drain`, or instead of it: ends everything. userspace takes out what it put into
   * the system, unless that is to stay; the rules of the kernel modes stay, as
   * kube-proxy's do, and the next mode that runs here takes them over or out.
   */
  close(): Promise<void>
}

/** A mode that listens for clients; rules lead them there. */
export interface RelayMode extends Mode {
  /**
   * `placements` as rules are to have them: led to where the relay listens, also to wait there, and refused
   * where no endpoint is left. Without what is not served.
   */
  readonly led: readonly Placement[]
}

/** What flags and the configuration file say to the kernel modes. */
export interface KernelOptions {
  readonly masqueradeAll: boolean
  readonly masqueradeBit: number
  /** These two in nftables mode, whose section of the configuration says them anew. */
  readonly nftables: NftablesOptions
  /** Node ports on 127.0.0.1, in iptables mode. */
  readonly localhostNodePorts: boolean
  /** How pods of this node are known. `cidrs`: those of `NodeParts`. */
  readonly localPods:
    | { readonly by: 'cidrs' }
    | { readonly by: 'bridge'; readonly name: string }
    | { readonly by: 'interface prefix'; readonly prefix: string }
  readonly conntrack: ConntrackOptions
  readonly ipvs: IpvsOptions
}

export interface NftablesOptions {
  readonly masqueradeAll: boolean
  readonly masqueradeBit: number
  /** Node ports on 127.0.0.1 and ::1, by the relay. */
  readonly localhostNodePorts: boolean
  /** Between which established connections of Services are forwarded by a flowtable; none for none. */
  readonly flowtableDevices: readonly string[]
}

/** Times in milliseconds; 0 leaves the kernel's own. */
export interface ConntrackOptions {
  /** Connections for a core; 0 leaves the kernel's own limit. */
  readonly maxPerCore: number
  /** Connections at least. */
  readonly min: number
  /** Connections, whatever the cores; 0: by the other two. */
  readonly max: number
  readonly tcpEstablishedMs: number
  readonly tcpCloseWaitMs: number
  /** Packets outside their TCP window are not marked INVALID. */
  readonly tcpBeLiberal: boolean
  readonly udpMs: number
  readonly udpStreamMs: number
}
