import { isDeepStrictEqual } from 'node:util'
import type { Placement } from '../capture/capture.ts'
import type { InspectCommand } from '../kernel/proxier.ts'
import type { Problem, ServicePort, Snapshot, Vip } from '../model/snapshot.ts'
import type { DrainResult } from '../relay/relay.ts'
import type { Mode, ModeName, RelayMode } from './mode.ts'
import { SortedMap } from '../model/sorted-map.ts'
import { Deferred } from '../util/deferred.ts'
import type { IpFamily } from '../util/ip.ts'
import { listOfServicePorts } from '../model/service-port-list.ts'
import { SteeredPorts } from '../capture/steering.ts'

export interface HybridModeDeps {
  readonly kernel: Mode
  /** Node ports on loopback, which the kernel can't lead to endpoints, are for the relay. */
  readonly localhostNodePorts: boolean
  /**
   * Userspace mode, whose capture finds proxy ports and leaves it to the kernel mode to lead there;
   * made when the first Service asks for it. Rejects when it does not work here.
   */
  readonly startRelay: () => Promise<RelayMode>
  /** Whether another Usher's rules lead clients to sockets that are this one's relay's by now. */
  readonly isHeir: () => boolean
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
 * A kernel mode, with the relay for the endpoint of Services that ask for it: one snapshot, one set
 * of rules. The relay listens for a Service before clients are led there, and until they no longer
 * are.
 */
export class HybridMode implements Mode {
  readonly name: ModeName
  readonly #deps: HybridModeDeps
  readonly #relayed: RelayedServices
  readonly #steered = new SteeredPorts()
  #relay: RelayMode | undefined
  #starting: Promise<RelayMode> | undefined
  #hasRelayed = false
  /** All of the last sync. */
  #all: readonly Snapshot[] = []
  /** What clients are led to the relay for. */
  #led: readonly Placement[] = []
  #isEnding = false
  #lent: Deferred<void> | undefined
  #underWay: Promise<unknown> = Promise.resolve()
  #handedOver: Promise<void> | undefined
  #closed: Promise<void> | undefined

  constructor(deps: HybridModeDeps) {
    this.#deps = deps
    this.#relayed = new RelayedServices(deps.localhostNodePorts)
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

  /** Whether the relay has ever been asked to listen. */
  get hasRelayed(): boolean {
    return this.#hasRelayed
  }

  sync(snapshots: readonly Snapshot[]): Promise<void> {
    const synced = this.#syncOwn(snapshots)
    this.#underWay = synced.catch(() => {})
    return synced
  }

  async lend(): Promise<() => void> {
    // What has not begun may wait for that process: for the host's turn, or for what is lent already.
    const before =
      this.#hasRelayed && this.#lent === undefined ? this.#underWay : undefined
    const lent = (this.#lent ??= new Deferred<void>())
    // Where it never comes nothing waits for it.
    lent.promise.catch(() => {})
    await before
    const takeBack = await this.#deps.kernel.lend()
    return () => {
      if (this.#lent === lent) this.#lent = undefined
      takeBack()
      lent.resolve()
    }
  }

  /** What the relay listens on, and where, is told to the process that it is lent to. */
  async #syncOwn(snapshots: readonly Snapshot[]): Promise<void> {
    await this.#lent?.promise
    await this.#sync(snapshots)
  }

  /**
   * Has the relay, if Services of these ask for it, before the first sync: what another Usher's carries can
   * be taken over then. Rejects where it does not start, which the sync tries again.
   */
  async openRelay(snapshots: readonly Snapshot[]): Promise<void> {
    if (!snapshots.every(one => isEmpty(this.#relayed.of(one)))) await this.#start()
  }

  async #sync(snapshots: readonly Snapshot[]): Promise<void> {
    this.#all = snapshots
    const relayed = snapshots.map(one => this.#relayed.of(one))
    if (this.#relay === undefined && relayed.every(isEmpty))
      return this.#deps.kernel.sync(snapshots)
    const isFirst = !this.#hasRelayed
    // Else it would lead clients away from where another Usher, or its heir, serves them.
    const mayLead = !isFirst || !this.#deps.isHeir()
    // As it is then this process's turn to write rules; and where the relay does not start.
    if (isFirst && mayLead) await this.#deps.kernel.sync(snapshots)
    const relay = this.#relay ?? (await this.#start())
    this.#hasRelayed = true
    if (this.#leaves(snapshots, relayed)) {
      // Where the kernel does not take them now they stay until it does.
      await this.#lead(snapshots, this.#stayLed(relayed))
      await this.#deps.sleep(onTheWayMs)
      // An end lets go of them, too.
      if (this.#isEnding) return
    }
    try {
      await relay.sync(relayed)
    } catch (error) {
      // Better without what they ask for than not at all.
      if (mayLead) await this.#lead(snapshots, [])
      throw error
    }
    await this.#lead(snapshots, relay.led)
  }

  /** Whether the kernel is to serve what clients are led to the relay for. */
  #leaves(snapshots: readonly Snapshot[], relayed: readonly Snapshot[]): boolean {
    const [wanted, there] = [wantedIn(relayed), wantedIn(snapshots)]
    return this.#led.some(one => wanted(one) === undefined && there(one) !== undefined)
  }

  /** What has other VIPs by now may have given one to another Service. */
  #stayLed(relayed: readonly Snapshot[]): readonly Placement[] {
    const wanted = wantedIn(relayed)
    return this.#led.filter(one =>
      isDeepStrictEqual(wanted(one)?.vips, one.servicePort.vips),
    )
  }

  /** Clients of those that are placed to the relay, as they are placed; of all others to endpoints. */
  async #lead(
    snapshots: readonly Snapshot[],
    placed: readonly Placement[],
  ): Promise<void> {
    const steered = await this.#steered.of(placed)
    // Where one family fails the other may have taken it.
    const led = [...this.#led, ...placed].map(one => [one.listenerId, one] as const)
    this.#led = [...new Map(led).values()]
    await this.#deps.kernel.sync(snapshots.map(one => withSteered(one, steered)))
    this.#led = placed
  }

  /** The kernel's rules stay at the end, and serve new clients of all Services from then on. */
  async drain(ms: number): Promise<DrainResult> {
    try {
      await this.#handOver()
      return (await this.#relay?.drain(ms)) ?? { reset: 0 }
    } finally {
      // What guards the relay has the name that the next process gives its own. `close` rejects with it.
      await this.#closeRelay().catch(() => {})
      // Then it is the next process's turn, which takes out what open connections go by.
      await this.#deps.kernel.drain(ms)
    }
  }

  async close(): Promise<void> {
    try {
      await this.#handOver()
      await this.#closeRelay()
    } finally {
      await this.#deps.kernel.close()
    }
  }

  /** Else new clients of the relay would wait for as long as its open connections last. */
  #handOver(): Promise<void> {
    this.#isEnding = true
    this.#lent?.reject(new Error('the mode has ended'))
    return (this.#handedOver ??= this.#handOverNow())
  }

  async #handOverNow(): Promise<void> {
    // Another Usher has both; or nothing was led there yet.
    if (!this.#hasRelayed || this.#lent !== undefined) return
    const led = this.#underWay.then(() => this.#lead(this.#all, []))
    // The end of the kernel mode ends tools that hang.
    await Promise.race([
      led.catch((error: unknown) => this.#deps.failed(error)),
      this.#deps.sleep(patienceMs),
    ])
  }

  #closeRelay(): Promise<void> {
    return (this.#closed ??= this.#closeRelayNow())
  }

  async #closeRelayNow(): Promise<void> {
    // One that starts closes itself.
    const started = this.#starting?.catch(() => {})
    await Promise.race([started, this.#deps.sleep(patienceMs)])
    // What guards it is another Usher's by now.
    if (this.#lent !== undefined) await this.#relay?.drain(0)
    else await this.#relay?.close()
  }

  /** One that did not start is started again. */
  async #start(): Promise<RelayMode> {
    if (this.#relay !== undefined) return this.#relay
    if (this.#isEnding) throw new Error('the mode has ended')
    const relay = await (this.#starting = this.#deps.startRelay())
    if (!this.#isEnding) return (this.#relay = relay)
    await relay.close()
    throw new Error('the mode has ended')
  }
}

/** What of all Services is for the relay. */
export class RelayedServices {
  readonly #localhostNodePorts: boolean
  /** What is the same object stays so. */
  readonly #onLoopback = new WeakMap<ServicePort, ServicePort>()

  constructor(localhostNodePorts: boolean) {
    this.#localhostNodePorts = localhostNodePorts
  }

  of(snapshot: Snapshot): Snapshot {
    const all = listOfServicePorts(snapshot)
    const relayed = all.filter(one => one.relayed)
    const onLoopback = this.#localhostNodePorts
      ? all.flatMap(one => this.#loopback(one))
      : []
    const some = [...relayed, ...onLoopback].map(one => [one.key, one] as const)
    return { ...snapshot, servicePorts: sorted(new Map(some)) }
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

/** The key, or the listener's id, of the ServicePort that it is a part of. */
export const withoutLoopback = (key: string): string =>
  isOnLoopback(key) ? key.slice(0, -onLoopback.length) : key

const loopback: Readonly<Record<IpFamily, string>> = { IPv4: '127.0.0.1', IPv6: '::1' }

const loopbackVip = ({ kind, port }: Vip, family: IpFamily): readonly Vip[] =>
  kind === 'NodePort' ? [{ kind, address: loopback[family], port }] : []

const isEmpty = ({ servicePorts }: Snapshot): boolean => servicePorts.size === 0

/** Gives what a Placement is of, as it is wanted by now; undefined where it is not. */
const wantedIn = (snapshots: readonly Snapshot[]) => {
  const ofFamily = new Map(snapshots.map(one => [one.family, one.servicePorts]))
  return ({ servicePort: { family, key } }: Placement): ServicePort | undefined =>
    ofFamily.get(family)?.get(key)
}

/** What is placed in the place of what it was; costs next to nothing where there is nothing. */
const withSteered = (snapshot: Snapshot, steered: readonly ServicePort[]): Snapshot => {
  const { family, servicePorts } = snapshot
  // One that has no proxy port is served by the kernel.
  const changes = new Map<string, ServicePort>()
  for (const one of steered) if (one.family === family) changes.set(one.key, one)
  if (changes.size === 0) return snapshot
  return { ...snapshot, servicePorts: sorted(servicePorts).with(changes) }
}

const sorted = (servicePorts: Snapshot['servicePorts']): SortedMap<ServicePort> =>
  servicePorts instanceof SortedMap
    ? servicePorts
    : SortedMap.empty<ServicePort>().with(servicePorts)
