import type { Placement } from '../capture/capture.ts'
import { HostTurn, type HostTurnDeps } from '../capture/host-turn.ts'
import type { UdpVip } from '../kernel/conntrack-plan.ts'
import type { KernelSettings, KernelSync, Proxier } from '../kernel/proxier.ts'
import type { Problem, ServicePort, Snapshot } from '../model/snapshot.ts'
import type { DrainResult } from '../relay/relay.ts'
import type { IpFamily } from '../util/ip.ts'
import { KeyedList } from '../util/keyed-list.ts'
import { kernelPlacement, lackingPlacement } from './kernel-placements.ts'
import { listOfServicePorts } from './service-port-list.ts'
import type { Mode, ModeName } from './mode.ts'
import { UdpChanges } from './udp-changes.ts'

/** Hears what was done to the kernel. */
export interface KernelObserver {
  synced(family: IpFamily, sync: KernelSync, seconds: number): void
  /** What was written is gone, by another program; all of it is written again. */
  damaged(family: IpFamily, what: string): void
  /** After `damaged`: it is as it should be again. */
  repaired(family: IpFamily, what: string): void
}

export interface KernelModeDeps extends Omit<HostTurnDeps, 'of'> {
  readonly name: Exclude<ModeName, 'userspace'>
  /** The families that can be had. */
  readonly proxiers: ReadonlyMap<IpFamily, Proxier>
  /** Why the others can't. */
  readonly lacking: ReadonlyMap<IpFamily, string>
  readonly settings: (family: IpFamily) => KernelSettings
  /** Before each sync: settings of the kernel's that rules rely on. Never rejects. */
  readonly prepare: () => Promise<void>
  /**
   * Told after each sync of IPv4 whether the rules stand that guard what opens the node
   * (route_localnet, CVE-2020-8558). Never rejects.
   */
  readonly guard: (stands: boolean) => Promise<void>
  /** Settings that were not made, because that would be dangerous. */
  readonly refused: () => readonly Problem[]
  /** Once all is led by this mode: takes out what others have left. Never rejects. */
  readonly removeOthers: () => Promise<void>
  /** Ends what the kernel remembers of UDP flows to these. Never rejects. */
  readonly forgetUdp: (vips: readonly UdpVip[]) => Promise<unknown>
  /** Asks for a sync soon. */
  readonly resync: () => void
  readonly observer: KernelObserver
}

interface Family {
  readonly proxier: Proxier
  readonly placements: KeyedList<ServicePort, Placement>
  readonly udp: UdpChanges
  placed: readonly Placement[]
  /** Why the last sync failed; '' when it did not. */
  error: string
  /** What is to be repaired; '' for nothing. */
  damage: string
  /** Whether all rules were written once and no change of them is known since. */
  isWhole: boolean
  endWatch: (() => void) | undefined
}

/**
 * A mode whose packets the kernel carries: Usher programs it and looks after that. One
 * process of a host does so at a time; a second one waits with its first sync.
 */
export class KernelMode implements Mode {
  readonly name: ModeName
  readonly #deps: KernelModeDeps
  readonly #families: ReadonlyMap<IpFamily, Family>
  readonly #lacking = new KeyedList<ServicePort, Placement>(keyOf)
  #placements: readonly Placement[] = []
  #unserved: readonly Problem[] = []
  readonly #turn: HostTurn
  #isAlone = false

  constructor(deps: KernelModeDeps) {
    this.name = deps.name
    this.#deps = deps
    this.#turn = new HostTurn({ ...deps, of: 'mode' })
    this.#families = new Map(
      Array.from(deps.proxiers, ([family, proxier]) => [family, newFamily(proxier)]),
    )
  }

  get placements(): readonly Placement[] {
    return this.#placements
  }

  get problems(): readonly Problem[] {
    const failed = Array.from(this.#families, ([family, { error }]) =>
      error === '' ? [] : [this.#problem(family, error)],
    )
    const own = Array.from(this.#families.values(), ({ proxier }) => proxier.problems())
    return [...this.#unserved, ...failed.flat(), ...own.flat(), ...this.#deps.refused()]
  }

  sync(snapshots: readonly Snapshot[]): Promise<void> {
    return this.#turn.take(() => this.#sync(snapshots))
  }

  /** No connection passes through here: those that are open go on without Usher. */
  async drain(): Promise<DrainResult> {
    await this.#end()
    await this.#turn.giveUp()
    return { reset: 0 }
  }

  async close(): Promise<void> {
    await this.#end()
    for (const { proxier } of this.#families.values()) proxier.close()
    await this.#turn.giveUp()
  }

  async #sync(snapshots: readonly Snapshot[]): Promise<void> {
    const { prepare, removeOthers } = this.#deps
    await prepare()
    const results = await Promise.allSettled(snapshots.map(one => this.#syncFamily(one)))
    await this.#place(snapshots)
    const failure = results.find(({ status }) => status === 'rejected')
    if (failure?.status === 'rejected') throw failure.reason
    if (this.#isAlone || this.#turn.isEnding) return
    await removeOthers()
    this.#isAlone = true
  }

  async #syncFamily(snapshot: Snapshot): Promise<void> {
    const { clock, settings, observer, forgetUdp } = this.#deps
    const name = snapshot.family
    const family = this.#families.get(name)
    if (family === undefined) return
    const started = clock.now()
    const { damage } = family
    try {
      const sync = await family.proxier.sync(snapshot, settings(name))
      family.error = ''
      family.isWhole = true
      observer.synced(name, sync, (clock.now() - started) / 1000)
    } catch (error) {
      family.error = (error as Error).message
      // A restore is done as a whole or not at all: where it fails once, all that was there
      // still is. The next one is a full one.
      if (name === 'IPv4' && !family.isWhole) await this.#guard(false)
      family.isWhole = false
      throw error
    }
    if (name === 'IPv4') await this.#guard(true)
    if (damage !== '') {
      observer.repaired(name, damage)
      family.udp.forget()
    }
    // What was found meanwhile is left for the next time.
    if (family.damage === damage) family.damage = ''
    const ports = listOfServicePorts(snapshot)
    family.placed = await family.placements.update(ports, kernelPlacement)
    const stale = family.udp.take(snapshot)
    // Not awaited: with a hundred thousand flows it takes seconds.
    if (stale.length > 0) void forgetUdp(stale)
    if (!this.#turn.isEnding) family.endWatch ??= this.#watch(name, family)
  }

  /** At the end it stays as it is: soon these settings are the next process's. */
  async #guard(stands: boolean): Promise<void> {
    if (!this.#turn.isEnding) await this.#deps.guard(stands)
  }

  #watch(name: IpFamily, family: Family): () => void {
    return family.proxier.watch(what => {
      if (this.#turn.isEnding) return
      family.proxier.forget()
      // It may be found several times before it is mended.
      if (family.damage === '') this.#deps.observer.damaged(name, what)
      family.damage = what
      family.isWhole = false
      this.#deps.resync()
    })
  }

  async #place(snapshots: readonly Snapshot[]): Promise<void> {
    const unserved: Problem[] = []
    const lists: (readonly Placement[])[] = []
    const without: ServicePort[] = []
    for (const snapshot of snapshots) {
      const family = this.#families.get(snapshot.family)
      const ports = listOfServicePorts(snapshot)
      if (family !== undefined) lists.push(family.placed)
      else if (ports.length > 0) {
        unserved.push(this.#problem(snapshot.family, this.#whyNot(snapshot.family)))
        without.push(...ports)
      }
    }
    const lacking = await this.#lacking.update(without, port =>
      lackingPlacement(port, this.#whyNot(port.family)),
    )
    if (lacking.length > 0) lists.push(lacking)
    this.#unserved = unserved
    const [only, ...more] = lists.filter(({ length }) => length > 0)
    this.#placements =
      more.length === 0 ? (only ?? []) : ([] as Placement[]).concat(only ?? [], ...more)
  }

  #whyNot(family: IpFamily): string {
    const why = this.#deps.lacking.get(family) ?? 'it is not known'
    return `${this.name} mode can't be had for ${family}: ${why}`
  }

  #problem(family: IpFamily, message: string): Problem {
    return { object: `mode ${this.name}`, field: family, message }
  }

  async #end(): Promise<void> {
    for (const family of this.#families.values()) {
      family.endWatch?.()
      family.endWatch = undefined
    }
    await this.#turn.end()
  }
}

const newFamily = (proxier: Proxier): Family => ({
  proxier,
  placements: new KeyedList<ServicePort, Placement>(keyOf),
  udp: new UdpChanges(),
  placed: [],
  error: '',
  damage: '',
  isWhole: false,
  endWatch: undefined,
})

const keyOf = ({ family, key }: ServicePort): string => `${family} ${key}`
