import { listenerId, type Placement } from '../capture/capture.ts'
import { HostTurn, type HostTurnDeps } from '../kernel/keeper/host-turn.ts'
import {
  type KeeperObserver,
  RuleKeeper,
  type RuleKeeperDeps,
} from '../kernel/keeper/rule-keeper.ts'
import type { KernelSettings, Look, Proxier } from '../kernel/proxier.ts'
import type { Problem, ServicePort, Snapshot, Vip } from '../model/snapshot.ts'
import { hasTraffic } from '../model/traffic.ts'
import type { DrainResult } from '../relay/relay.ts'
import type { IpFamily } from '../util/ip.ts'
import { KeyedList } from '../util/keyed-list.ts'
import { kernelPlacement, unservedPlacement } from './placements.ts'
import { joinLists, listOfServicePorts } from '../model/service-port-list.ts'
import type { Mode, ModeName } from './mode.ts'
import { ServiceFlowChanges } from './flow-changes.ts'

export interface KernelModeDeps
  extends
    Omit<HostTurnDeps, 'of'>,
    Pick<RuleKeeperDeps<Snapshot, KernelSettings>, 'conntrack' | 'left'> {
  readonly name: Exclude<ModeName, 'userspace'>
  /** The families that work. */
  readonly proxiers: ReadonlyMap<IpFamily, Proxier>
  /** Why the others don't. */
  readonly unusable: ReadonlyMap<IpFamily, string>
  readonly settings: (family: IpFamily) => KernelSettings
  /** Before each sync: settings of the kernel's that rules rely on. Never rejects. */
  readonly prepare: () => Promise<void>
  /**
   * Called after each sync of IPv4, with whether the rules stand that guard what opens the node
   * (route_localnet, CVE-2020-8558). Never rejects.
   */
  readonly guard: (stands: boolean) => Promise<void>
  /** Settings that were not made, because that would be dangerous. */
  readonly refused: () => readonly Problem[]
  /** Asks for a sync soon. */
  readonly resync: () => void
  readonly observers: readonly KeeperObserver[]
}

/**
 * A mode whose packets the kernel carries: Usher programs it and keeps it so. One process of
 * a host does so at a time; a second one waits with its first sync.
 */
export class KernelMode implements Mode {
  readonly name: ModeName
  readonly #deps: KernelModeDeps
  readonly #turn: HostTurn
  readonly #keeper: RuleKeeper<Snapshot, KernelSettings>
  /** As of the last sync of each family that worked. */
  readonly #applied = new Map<IpFamily, readonly ServicePort[]>()
  readonly #placed = new KeyedList<ServicePort, Placement>(listenerId)
  #placements: readonly Placement[] = []
  #unserved: readonly Problem[] = []
  #annotated: readonly Problem[] = []

  constructor(deps: KernelModeDeps) {
    this.name = deps.name
    this.#deps = deps
    this.#turn = new HostTurn({ ...deps, of: 'mode' })
    this.#keeper = new RuleKeeper({
      ...deps,
      flowChanges: () => new ServiceFlowChanges(),
      stands: async (family, stands) => {
        if (family === 'IPv4') await deps.guard(stands)
      },
    })
  }

  get placements(): readonly Placement[] {
    return this.#placements
  }

  get problems(): readonly Problem[] {
    const failed = this.#keeper.problems(`mode ${this.name}`)
    return [...this.#unserved, ...this.#annotated, ...failed, ...this.#deps.refused()]
  }

  sync(snapshots: readonly Snapshot[]): Promise<void> {
    return this.#turn.lead(() => this.#sync(snapshots))
  }

  looks(servicePort: ServicePort, vip: Vip): readonly Look[] {
    const proxier = this.#deps.proxiers.get(servicePort.family)
    return proxier?.looks?.(servicePort, vip) ?? []
  }

  /** No connection passes through here: those that are open go on without Usher. */
  async drain(): Promise<DrainResult> {
    await this.#end()
    await this.#turn.giveUp()
    return { reset: 0 }
  }

  async close(): Promise<void> {
    await this.#end()
    for (const proxier of this.#deps.proxiers.values()) proxier.close()
    await this.#turn.giveUp()
  }

  async #sync(snapshots: readonly Snapshot[]): Promise<void> {
    const { prepare, settings } = this.#deps
    await prepare()
    try {
      await this.#keeper.sync(
        snapshots.map(wanted => {
          const { family, servicePorts } = wanted
          const isEmpty = servicePorts.size === 0
          return { family, wanted, settings: settings(family), isEmpty }
        }),
      )
    } finally {
      await this.#place(snapshots)
    }
  }

  async #place(snapshots: readonly Snapshot[]): Promise<void> {
    const { proxiers } = this.#deps
    for (const snapshot of snapshots)
      if (!this.#keeper.hasFailed(snapshot.family))
        this.#applied.set(snapshot.family, listOfServicePorts(snapshot))
    const all = joinLists([...this.#applied.values()])
    this.#placements = await this.#placed.update(all, port =>
      proxiers.has(port.family)
        ? kernelPlacement(port)
        : unservedPlacement(port, this.#whyNot(port.family)),
    )
    this.#annotated = annotationProblems(this.name, all)
    this.#unserved = snapshots
      .filter(
        ({ family, servicePorts }) => servicePorts.size > 0 && !proxiers.has(family),
      )
      .map(({ family }) => ({
        object: `mode ${this.name}`,
        field: family,
        message: this.#whyNot(family),
      }))
  }

  #whyNot(family: IpFamily): string {
    const why = this.#deps.unusable.get(family) ?? 'it is not known'
    return `${this.name} mode does not work for ${family}: ${why}`
  }

  async #end(): Promise<void> {
    this.#keeper.stop()
    await this.#turn.end()
  }
}

/** Of Services that ask for what only a relay can do. */
const annotationProblems = (
  mode: ModeName,
  servicePorts: readonly ServicePort[],
): readonly Problem[] => {
  const services = servicePorts
    .filter(
      port => port.relayed === true || hasTraffic(port) || port.onDown !== undefined,
    )
    .map(({ namespace, serviceName }) => `Service ${namespace}/${serviceName}`)
  const message = `ask for retries, checks, limits or a choice of endpoints, which only the relay of userspace and nftables mode has (--proxy-mode); ${mode} mode serves this Service without`
  return [...new Set(services)].map(object => ({
    object,
    field: 'metadata.annotations',
    message,
  }))
}
