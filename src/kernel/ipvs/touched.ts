import { forEachYielding } from '../../util/yielding.ts'
import type { KnownState } from './known-state.ts'
import type { ServerId } from './server-id.ts'
import type { SetKind } from './set-names.ts'

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
