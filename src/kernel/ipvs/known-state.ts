import type { ServerId } from './server-id.ts'
import type { SetKind } from './set-names.ts'
import { forEachYielding } from '../../util/yielding.ts'

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

/** Where the kernel may differ from what is wanted; nowhere else. */
export class Touched {
  readonly servers = new Set<ServerId>()
  readonly addresses = new Set<string>()
  readonly sets = new Map<SetKind, Set<string>>()

  entry(kind: SetKind, entry: string): void {
    const entries = this.sets.get(kind)
    if (entries === undefined) this.sets.set(kind, new Set([entry]))
    else entries.add(entry)
  }

  /** All that the kernel has. */
  async known({ servers, addresses, sets }: KnownState): Promise<void> {
    await forEachYielding(servers.keys(), id => void this.servers.add(id))
    await forEachYielding(addresses, address => void this.addresses.add(address))
    for (const [kind, { entries }] of sets)
      await forEachYielding(entries, entry => this.entry(kind, entry))
  }
}
