import type { Placement } from '../capture/capture.ts'
import type { Look } from '../kernel/proxier.ts'
import type { Problem, ServicePort, Snapshot, Vip } from '../model/snapshot.ts'
import type { DrainResult } from '../relay/relay.ts'

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
  /** Of a mode whose rules lead clients to endpoints: see `Proxier.looks`. */
  looks?(servicePort: ServicePort, vip: Vip): readonly Look[]
  /** Stops taking new clients, lets open connections end, resets the rest after `ms`. */
  drain(ms: number): Promise<DrainResult>
  /**
   * After `drain`, or instead of it: ends everything. userspace takes out what it put into
   * the system, unless that is to stay; the rules of the kernel modes stay, as
   * kube-proxy's do, and the next mode that runs here takes them over or out.
   */
  close(): Promise<void>
}
