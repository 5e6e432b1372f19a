import type { Clock } from '../../util/clock.ts'
import type { Problem, Snapshot } from '../../model/snapshot.ts'
import type { IpFamily } from '../../util/ip.ts'
import type { ConntrackCleaner, FlowVip } from '../conntrack.ts'
import type { KernelSettings, KernelSync, Proxier } from '../proxier.ts'
import { FlowChanges } from './flow-changes.ts'

/** Called with what was done to the kernel's rules. */
export interface KeeperObserver {
  synced(family: IpFamily, sync: KernelSync, seconds: number): void
  /** Another program changed what was written; '' for `error` when it is as it should be again. */
  repaired(family: IpFamily, what: string, error: string): void
}

/** What one family is to have. */
export interface FamilyWanted {
  readonly snapshot: Snapshot
  readonly settings: KernelSettings
}

export interface RuleKeeperDeps {
  readonly clock: Clock
  readonly proxiers: ReadonlyMap<IpFamily, Proxier>
  /** Ends what the kernel remembers of flows to VIPs. */
  readonly conntrack: Pick<ConntrackCleaner, 'forgetFlows' | 'problem'>
  /** VIPs of UDP to which rules of an earlier process lead, before the first sync. Never rejects. */
  readonly left: (family: IpFamily) => Promise<readonly FlowVip[]>
  /**
   * Called after each sync with whether the rules of a family stand; not when one failed that
   * changed nothing. Never rejects.
   */
  readonly stands?: (family: IpFamily, stands: boolean) => Promise<void>
  /** Asks for a sync soon. */
  readonly resync: () => void
  readonly observers: readonly KeeperObserver[]
}

interface Kept {
  readonly proxier: Proxier
  readonly flows: FlowChanges
  /** Undefined until the first sync; empty after the second. */
  left: readonly FlowVip[] | undefined
  /** Whether it ever had something to serve: else that it can't be written is a problem, and no failure of the rest. */
  hasServed: boolean
  /** Why the last sync failed; '' when it did not. */
  error: string
  /** What is to be repaired; '' for nothing. */
  damage: string
  /** Whether all rules were written once and no change of them is known since. */
  isWhole: boolean
  endWatch: (() => void) | undefined
}

/**
 * Keeps the kernel's rules of each family equal to what is wanted, whatever writes them: a
 * kernel mode's proxier or a capture's. Level-triggered: what fails or is damaged is written
 * as a whole by the next sync. Calls of `sync` don't overlap.
 */
export class RuleKeeper {
  readonly #deps: RuleKeeperDeps
  readonly #families: ReadonlyMap<IpFamily, Kept>
  #isStopped = false

  constructor(deps: RuleKeeperDeps) {
    this.#deps = deps
    this.#families = new Map(
      Array.from(deps.proxiers, ([family, proxier]) => [
        family,
        {
          proxier,
          flows: new FlowChanges(),
          left: undefined,
          hasServed: false,
          error: '',
          damage: '',
          isWhole: false,
          endWatch: undefined,
        },
      ]),
    )
  }

  /** One family that fails does not keep the other from its sync; then it rejects. */
  async sync(all: readonly FamilyWanted[]): Promise<void> {
    const results = await Promise.allSettled(all.map(one => this.#syncFamily(one)))
    const isServed = (each: FamilyWanted | undefined): boolean =>
      each !== undefined && this.#families.get(each.snapshot.family)?.hasServed === true
    const failure = results.find(
      ({ status }, at) => status === 'rejected' && isServed(all[at]),
    )
    if (failure?.status === 'rejected') throw failure.reason
  }

  /** Whether the last sync of it did. */
  hasFailed(family: IpFamily): boolean {
    return (this.#families.get(family)?.error ?? '') !== ''
  }

  /** What of the last sync could not be honoured; failures are those of `object`. */
  problems(object: string): readonly Problem[] {
    const { problem } = this.#deps.conntrack
    const families = Array.from(this.#families, ([field, { error, damage, proxier }]) => {
      const message = error || (damage && `another program changed its rules: ${damage}`)
      return [
        ...(message === '' ? [] : [{ object, field, message }]),
        ...proxier.problems(),
      ]
    }).flat()
    if (problem === '') return families
    const message = `flows may go on to what is gone: ${problem}`
    return [...families, { object, field: 'UDP', message }]
  }

  /** Nothing is watched any more; a sync that is under way comes to its end. */
  stop(): void {
    this.#isStopped = true
    for (const family of this.#families.values()) {
      family.endWatch?.()
      family.endWatch = undefined
    }
  }

  async #syncFamily({ snapshot, settings }: FamilyWanted): Promise<void> {
    const { family: name } = snapshot
    const family = this.#families.get(name)
    if (family === undefined) return
    family.hasServed ||= snapshot.servicePorts.size > 0
    const { clock, conntrack, resync } = this.#deps
    const { damage } = family
    const left = family.left ?? (await this.#deps.left(name))
    const started = clock.now()
    const sync = await family.proxier
      .sync(snapshot, settings)
      .catch((error: unknown) => this.#failed(name, family, damage, error as Error))
    family.error = ''
    family.isWhole = true
    const seconds = (clock.now() - started) / 1000
    this.#notify(observer => observer.synced(name, sync, seconds))
    await this.#reportStands(name, true)
    if (damage !== '') this.#notify(observer => observer.repaired(name, damage, ''))
    // What was found meanwhile is left for the next time.
    if (family.damage === damage) family.damage = ''
    const all = sync.work === 'full' || left.length > 0
    const stale = family.flows.take(snapshot, all, left, settings)
    // Rules of another mode, which go after the first sync, led clients until then: once more.
    if (family.left === undefined && left.length > 0) resync()
    family.left = family.left === undefined ? left : []
    // Not awaited: with a hundred thousand flows it takes seconds.
    if (stale.length > 0) void conntrack.forgetFlows(stale)
    if (!this.#isStopped) family.endWatch ??= this.#watch(name, family)
  }

  async #failed(
    name: IpFamily,
    family: Kept,
    damage: string,
    error: Error,
  ): Promise<never> {
    family.error = error.message
    // A restore is done as a whole or not at all: where it fails once, all that was there
    // still is. The next one is a full one.
    if (!family.isWhole) await this.#reportStands(name, false)
    family.isWhole = false
    if (damage !== '')
      this.#notify(observer => observer.repaired(name, damage, error.message))
    throw error
  }

  #notify(what: (observer: KeeperObserver) => void): void {
    for (const observer of this.#deps.observers) what(observer)
  }

  /** At the end it stays as it is: soon it is the next process's. */
  async #reportStands(family: IpFamily, stands: boolean): Promise<void> {
    if (!this.#isStopped) await this.#deps.stands?.(family, stands)
  }

  #watch(name: IpFamily, family: Kept): () => void {
    return family.proxier.watch(what => {
      if (this.#isStopped) return
      family.proxier.forget()
      family.damage = what
      family.isWhole = false
      this.#deps.resync()
    })
  }
}
