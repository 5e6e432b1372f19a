import type { Placement } from '../capture/capture.ts'
import type { Look } from '../kernel/proxier.ts'
import type { Problem, ServicePort, Snapshot, Vip } from '../model/snapshot.ts'
import type { DrainResult } from '../relay/relay.ts'
import type { Mode, ModeName } from './mode.ts'
import {
  isEmpty,
  type ServiceSplitter,
  withLeaving,
  withoutServicePorts,
} from './split-services.ts'

/** Userspace mode, whose clients may be led elsewhere while it still listens for them. */
export interface RelayMode extends Mode {
  sync(snapshots: readonly Snapshot[], led?: readonly Snapshot[]): Promise<void>
}

export interface HybridModeDeps {
  readonly kernel: Mode
  readonly splitter: ServiceSplitter
  /**
   * Userspace mode, whose capture leaves alone what the kernel mode has; made when the first Service
   * asks for it. Rejects when it does not work here.
   */
  readonly startRelay: () => Promise<RelayMode>
  /** What the relay served may not be served after the end. */
  readonly failed: (error: unknown) => void
  readonly sleep: (ms: number) => Promise<void>
}

/**
 * Milliseconds for which the relay listens when it is led no more: whoever was on the way to it
 * would be reset.
 */
const onTheWayMs = 1000
/** That an end waits for the kernel to take all. */
const patienceMs = 3000

/**
 * A kernel mode for most Services, and userspace mode for those that ask for it. A Service that
 * changes sides is served by both for a moment: whichever leads a connection first has it.
 */
export class HybridMode implements Mode {
  readonly name: ModeName
  readonly #deps: HybridModeDeps
  #relay: RelayMode | undefined
  /** All of the last sync, and what the relay was last given with success. */
  #all: readonly Snapshot[] = []
  #relayed: readonly Snapshot[] = []
  #isEnding = false
  #underWay: Promise<unknown> = Promise.resolve()

  constructor(deps: HybridModeDeps) {
    this.#deps = deps
    this.name = deps.kernel.name
  }

  get placements(): readonly Placement[] {
    const relayed = this.#relay?.placements ?? []
    const { placements } = this.#deps.kernel
    return relayed.length === 0 ? placements : [...placements, ...relayed]
  }

  get problems(): readonly Problem[] {
    return [...this.#deps.kernel.problems, ...(this.#relay?.problems ?? [])]
  }

  looks(servicePort: ServicePort, vip: Vip): readonly Look[] {
    return this.#deps.kernel.looks?.(servicePort, vip) ?? []
  }

  sync(snapshots: readonly Snapshot[]): Promise<void> {
    const synced = this.#sync(snapshots)
    this.#underWay = synced.catch(() => {})
    return synced
  }

  async #sync(snapshots: readonly Snapshot[]): Promise<void> {
    const { kernel, splitter } = this.#deps
    this.#all = snapshots
    const split = splitter.split(snapshots)
    if (this.#relay === undefined) {
      if (isEmpty(split.relay)) return kernel.sync(split.kernel)
      // First, as it is then this process's turn to write rules; and where the relay does not start.
      await kernel.sync(snapshots)
      this.#relay = await this.#start()
    }
    const both = withLeaving(split.relay, this.#relayed, split.kernel)
    await this.#relay.sync(both).catch(async (error: unknown) => {
      // Better without what they ask for than not at all.
      await kernel.sync(snapshots)
      throw error
    })
    // With those that leave: where the kernel does not take them now they stay until it does.
    this.#relayed = both
    await kernel.sync(split.kernel)
    if (both === split.relay) return
    await this.#relay.sync(both, split.relay)
    await this.#deps.sleep(onTheWayMs)
    // An end lets go of them, too.
    if (this.#isEnding) return
    await this.#relay.sync(split.relay)
    this.#relayed = split.relay
  }

  /** The kernel's rules stay at the end, and serve new clients of all Services from then on. */
  async drain(ms: number): Promise<DrainResult> {
    const { kernel } = this.#deps
    this.#isEnding = true
    const relay = this.#relay
    if (relay === undefined) return kernel.drain(ms)
    const handedOver = this.#handOver(relay).catch((error: unknown) =>
      this.#deps.failed(error),
    )
    // The drains end tools that hang.
    await Promise.race([handedOver, this.#deps.sleep(patienceMs)])
    try {
      return await relay.drain(ms)
    } finally {
      // Then it is the next process's turn, which takes out what open connections go by.
      await kernel.drain(ms)
    }
  }

  /** Else new clients of the relay would wait for as long as its open connections last. */
  async #handOver(relay: RelayMode): Promise<void> {
    await this.#underWay
    await this.#deps.kernel.sync(this.#all)
    await relay.sync(this.#relayed, this.#relayed.map(withoutServicePorts))
  }

  async close(): Promise<void> {
    this.#isEnding = true
    try {
      await this.#relay?.close()
    } finally {
      await this.#deps.kernel.close()
    }
  }

  async #start(): Promise<RelayMode> {
    const relay = await this.#deps.startRelay()
    if (!this.#isEnding) return relay
    await relay.close()
    throw new Error('the mode has ended')
  }
}
