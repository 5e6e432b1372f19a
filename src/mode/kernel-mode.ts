import { isDeepStrictEqual } from 'node:util'
import { listenerId, type Placement } from '../capture/capture.ts'
import { Families } from '../kernel/keeper/families.ts'
import { HostTurn, type HostTurnDeps } from '../kernel/keeper/host-turn.ts'
import {
  type KeeperObserver,
  RuleKeeper,
  type RuleKeeperDeps,
} from '../kernel/keeper/rule-keeper.ts'
import type { Probe } from '../kernel/probe.ts'
import type { KernelSettings, InspectCommand, Proxier } from '../kernel/proxier.ts'
import type { Problem, ServicePort, Snapshot, Vip } from '../model/snapshot.ts'
import { hasTraffic } from '../model/traffic.ts'
import type { DrainResult } from '../relay/relay.ts'
import type { IpFamily } from '../util/ip.ts'
import { KeyedList } from '../util/keyed-list.ts'
import { kernelPlacement, unservedPlacement } from './placements.ts'
import { joinLists, listOfServicePorts } from '../model/service-port-list.ts'
import type { Mode, ModeName } from './mode.ts'

export interface KernelModeDeps
  extends Omit<HostTurnDeps, 'of'>, Pick<RuleKeeperDeps, 'conntrack' | 'left'> {
  readonly name: Exclude<ModeName, 'userspace'>
  readonly proxiers: ReadonlyMap<IpFamily, Proxier>
  /** Why those don't work that don't. */
  readonly unusable: ReadonlyMap<IpFamily, string>
  /** Whether one does by now. Never rejects. */
  readonly probe: (family: IpFamily) => Promise<Probe>
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
  readonly #families: Families
  readonly #keeper: RuleKeeper
  /** As of the last sync of each family that worked. */
  readonly #applied = new Map<IpFamily, readonly ServicePort[]>()
  readonly #placed = new KeyedList<ServicePort, Placement>(listenerId)
  #placements: readonly Placement[] = []
  #annotated: readonly Problem[] = []
  /** What placements rest on. */
  #familyProblems = {}

  constructor(deps: KernelModeDeps) {
    this.name = deps.name
    this.#deps = deps
    this.#turn = new HostTurn({ ...deps, of: 'mode' })
    this.#families = new Families({ ...deps, object: `mode ${deps.name}` })
    this.#keeper = new RuleKeeper({
      ...deps,
      stands: async (family, stands) => {
        if (family === 'IPv4') await deps.guard(stands)
      },
    })
  }

  get placements(): readonly Placement[] {
    return this.#placements
  }

  get problems(): readonly Problem[] {
    return [
      ...this.#families.problems,
      ...this.#annotated,
      ...this.#keeper.problems(`mode ${this.name}`),
      ...this.#deps.refused(),
      ...this.#turn.problems,
    ]
  }

  sync(snapshots: readonly Snapshot[]): Promise<void> {
    return this.#turn.lead(() => this.#sync(snapshots))
  }

  inspectCommands(servicePort: ServicePort, vip: Vip): readonly InspectCommand[] {
    const proxier = this.#deps.proxiers.get(servicePort.family)
    return proxier?.inspectCommands?.(servicePort, vip) ?? []
  }

  lend(): Promise<() => void> {
    return this.#turn.lend()
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
    this.#turn.needAlone()
  }

  async #sync(snapshots: readonly Snapshot[]): Promise<void> {
    const { prepare, settings } = this.#deps
    const wanting = snapshots.filter(one => one.servicePorts.size > 0)
    const familyProblems = this.#families.want(
      new Set(wanting.map(({ family }) => family)),
    )
    await prepare()
    try {
      await this.#keeper.sync(
        snapshots
          .filter(({ family }) => familyProblems[family] === '')
          .map(snapshot => ({ snapshot, settings: settings(snapshot.family) })),
      )
    } finally {
      await this.#place(snapshots, familyProblems)
    }
  }

  async #place(
    snapshots: readonly Snapshot[],
    familyProblems: Readonly<Record<IpFamily, string>>,
  ): Promise<void> {
    for (const snapshot of snapshots)
      if (!this.#keeper.hasFailed(snapshot.family))
        this.#applied.set(snapshot.family, listOfServicePorts(snapshot).filter(isOwn))
    const all = joinLists([...this.#applied.values()])
    const place = (port: ServicePort): Placement =>
      familyProblems[port.family] === ''
        ? kernelPlacement(port)
        : unservedPlacement(port, familyProblems[port.family])
    const options = { all: !isDeepStrictEqual(familyProblems, this.#familyProblems) }
    this.#placements = await this.#placed.update(all, place, options)
    this.#familyProblems = familyProblems
    this.#annotated = annotationProblems(this.name, all)
  }

  async #end(): Promise<void> {
    this.#families.stop()
    this.#keeper.stop()
    await this.#turn.end()
  }
}

/** What is steered to the relay is placed by what listens there. */
const isOwn = ({ steeredTo }: ServicePort): boolean => steeredTo === undefined

/** Of Services that ask for what only a relay can do. */
const annotationProblems = (
  mode: ModeName,
  servicePorts: readonly ServicePort[],
): readonly Problem[] => {
  const services = servicePorts
    .filter(
      port => port.relayed === true || hasTraffic(port) || port.checks !== undefined,
    )
    .map(({ namespace, serviceName }) => `Service ${namespace}/${serviceName}`)
  const message = `ask for retries, checks, limits or a choice of endpoints, which only the relay of userspace and nftables mode has (--proxy-mode); ${mode} mode serves this Service without`
  return [...new Set(services)].map(object => ({
    object,
    field: 'metadata.annotations',
    message,
  }))
}
