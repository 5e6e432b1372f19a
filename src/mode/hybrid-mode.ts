import type { Placement } from '../capture/capture.ts'
import type { InspectCommand } from '../kernel/proxier.ts'
import type { Problem, ServicePort, Snapshot, Vip } from '../model/snapshot.ts'
import type { DrainResult } from '../relay/relay.ts'
import type { Mode, ModeName } from './mode.ts'
import { SortedMap } from '../model/sorted-map.ts'
import type { IpFamily } from '../util/ip.ts'
import { listOfServicePorts } from '../model/service-port-list.ts'

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

  inspectCommands(servicePort: ServicePort, vip: Vip): readonly InspectCommand[] {
    return this.#deps.kernel.inspectCommands?.(servicePort, vip) ?? []
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

/** What of the wanted state is whose. */
interface Split {
  readonly kernel: readonly Snapshot[]
  readonly relay: readonly Snapshot[]
}

/** Divides Services between rules of the kernel's and a relay. */
export class ServiceSplitter {
  readonly #localhostNodePorts: boolean
  /** What is the same object stays so. */
  readonly #onLoopback = new WeakMap<ServicePort, ServicePort>()

  /** `localhostNodePorts`: node ports on loopback, which the kernel can't lead elsewhere. */
  constructor(localhostNodePorts: boolean) {
    this.#localhostNodePorts = localhostNodePorts
  }

  split(snapshots: readonly Snapshot[]): Split {
    return {
      kernel: snapshots.map(unrelayed),
      relay: snapshots.map(one => this.#relayed(one)),
    }
  }

  #relayed(snapshot: Snapshot): Snapshot {
    const all = listOfServicePorts(snapshot)
    const relayed = all.filter(one => one.relayed)
    const onLoopback = this.#localhostNodePorts
      ? all.flatMap(one => this.#loopback(one))
      : []
    return withServicePorts(snapshot, [...relayed, ...onLoopback])
  }

  #loopback(servicePort: ServicePort): readonly ServicePort[] {
    const known = this.#onLoopback.get(servicePort)
    if (known !== undefined) return [known]
    const vips = servicePort.vips.flatMap(vip => loopbackVip(vip, servicePort.family))
    if (vips.length === 0 || servicePort.protocol === 'SCTP') return []
    // As kube-proxy 1.37 (localnodeportproxy): with externalTrafficPolicy Local this node's endpoints.
    const { external } = servicePort
    const made = {
      ...servicePort,
      key: loopbackKey(servicePort),
      vips,
      externalFromNode: external,
    }
    this.#onLoopback.set(servicePort, made)
    return [made]
  }
}

const onLoopback = ' on loopback'

/** `ServicePort.key` of what the relay serves of a ServicePort on loopback. */
export const loopbackKey = ({ key }: Pick<ServicePort, 'key'>): string =>
  `${key}${onLoopback}`

/** Whether this is the key, or the listener's id, of what is served on loopback. */
export const isOnLoopback = (key: string): boolean => key.endsWith(onLoopback)

const loopback: Readonly<Record<IpFamily, string>> = { IPv4: '127.0.0.1', IPv6: '::1' }

const loopbackVip = ({ kind, port }: Vip, family: IpFamily): readonly Vip[] =>
  kind === 'NodePort' ? [{ kind, address: loopback[family], port }] : []

/** Costs next to nothing where no Service asks for the relay. */
const unrelayed = (snapshot: Snapshot): Snapshot => {
  const relayed = listOfServicePorts(snapshot).filter(one => one.relayed)
  if (relayed.length === 0) return snapshot
  const gone = new Map(relayed.map(({ key }) => [key, undefined]))
  return { ...snapshot, servicePorts: sorted(snapshot.servicePorts).with(gone) }
}

const sorted = (servicePorts: Snapshot['servicePorts']): SortedMap<ServicePort> =>
  servicePorts instanceof SortedMap
    ? servicePorts
    : SortedMap.empty<ServicePort>().with(servicePorts)

const withServicePorts = (
  snapshot: Snapshot,
  list: readonly ServicePort[],
): Snapshot => ({
  ...snapshot,
  servicePorts: sorted(new Map(list.map(one => [one.key, one]))),
})

const withoutServicePorts = (snapshot: Snapshot): Snapshot =>
  withServicePorts(snapshot, [])

const isEmpty = (snapshots: readonly Snapshot[]): boolean =>
  snapshots.every(({ servicePorts }) => servicePorts.size === 0)

/** `wanted`, and those of `before` that are not in it but in `now`, as they are there. */
const withLeaving = (
  wanted: readonly Snapshot[],
  before: readonly Snapshot[],
  now: readonly Snapshot[],
): readonly Snapshot[] => {
  const leaving = wanted.map((one, i) =>
    [...(before[i]?.servicePorts.keys() ?? [])].flatMap(key => {
      const still = now[i]?.servicePorts.get(key)
      return still === undefined || one.servicePorts.has(key) ? [] : [still]
    }),
  )
  if (leaving.every(({ length }) => length === 0)) return wanted
  return wanted.map((one, i) =>
    withServicePorts(one, [...one.servicePorts.values(), ...(leaving[i] ?? [])]),
  )
}
