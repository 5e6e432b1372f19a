import type { ServerId } from './server-id.ts'
import type { SetKind } from './set-names.ts'

/** A virtual server as the kernel has it. */
export interface KnownServer {
  /** Its options, in the words of ipvsadm(8). */
  how: string
  /** The weight of each destination; -1 for one that is not reached by masquerading. */
  readonly destinations: Map<string, number>
}

export interface KnownSet {
  /** What it was made with; undefined when there is none. */
  creation: string | undefined
  entries: Set<string>
}

/** What the kernel has of one family; others' virtual servers, sets, and devices left out. */
export interface KnownState {
  readonly servers: Map<ServerId, KnownServer>
  readonly sets: Map<SetKind, KnownSet>
  /** On kube-ipvs0. */
  readonly addresses: Set<string>
}
