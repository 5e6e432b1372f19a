import type { Problem, ServicePort, Snapshot, Vip } from '../../model/snapshot.ts'
import type { Clock } from '../../util/clock.ts'
import { errorOf } from '../../util/usher-error.ts'
import type { Bpf } from '../bpf/bpf.ts'
import type { Pins } from '../bpf/pins.ts'
import { Canary } from '../keeper/canary.ts'
import type { HostLock } from '../keeper/host-lock.ts'
import { Installed } from '../keeper/installed.ts'
import { joinLists, listOfServicePorts } from '../../model/service-port-list.ts'
import { boundClients, type InspectCommand } from '../proxier.ts'
import type { StoppableTools } from '../run-tool.ts'
import {
  compileNodeAddress,
  entryOf,
  compileExempt,
  type LedCount,
  LedCounts,
  compile,
  type Entry,
  type WrittenTable,
  writtenTables,
} from './tables.ts'
import type { Features } from './programs.ts'
import { Steering } from './steering.ts'
import { UdpEnds } from './udp-ends.ts'
import { listDiff, forEachYielding } from '../../util/list-diff.ts'
import { ElementChanges } from '../elements/element-changes.ts'

export interface ConnectTimeDeps {
  readonly clock: Clock
  readonly bpf: Bpf
  readonly cgroup: string
  readonly features: Features
  readonly pins: Pins
  /** One process of a host leads clients at a time. */
  readonly lock: HostLock
  /** Where node ports answer, loopback's among them. */
  readonly nodeAddresses: (snapshots: readonly Snapshot[]) => readonly string[]
  /** Keys of clients that are not led, as of now. */
  readonly exempt?: () => readonly string[]
  /** Programs that lead already, of another process too, lead this one no more. */
  readonly exemptSelf?: () => void
  /** Asks for a sync soon. */
  readonly resync: () => void
  readonly observer: ConnectTimeObserver
  /** For what ends sockets of UDP. */
  readonly tools: Pick<StoppableTools, 'run' | 'stop'>
  /** Elements of tables at once; for tests. */
  readonly capacity?: Capacity
}

export interface ConnectTimeObserver {
  synced(seconds: number): void
  /** Clients go the proxy mode's way, unless `stays`: then old entries lead them still. */
  failed(error: Error, stays: boolean): void
  /** Others have changed it; it is made anew. */
  damaged(what: string): void
  /** '' when nothing of UDP may stay where it should not. */
  udpFailed(reason: string): void
}

/**
 * A hundred thousand endpoints, half as many of them of UDP or with affinity (members). Twice as
 * many have room, as a list is replaced by the next one.
 */
const usualCapacity: Capacity = { services: 65_536, slots: 131_072, members: 65_536 }
/** Each takes 100 bytes and more, whether it is used or not. */
const sockets = 32_768

/**
 * Leads clients of VIPs on this node to endpoints as they connect, beside whatever mode carries the
 * others. A failure costs nobody a connection: programs are taken out, and the mode has all clients.
 */
export class ConnectTime {
  readonly #deps: ConnectTimeDeps
  readonly #capacity: Capacity
  #steering: Steering | undefined
  #wanted: WantedEntries
  #left: readonly ServicePort[] = []
  #error = ''
  #staleSteeringError = ''
  /** As of the last write; to ask the system takes a moment. */
  #nodeAddresses: readonly string[] = []
  #exempt: readonly string[] = []
  readonly #udp: UdpEnds
  #hasLock = false
  #isEnding = false
  readonly #groups = new LedCounts()
  #underWay: Promise<void> = Promise.resolve()
  readonly #known = new Installed<Steering>()
  #watch: Canary<Steering> | undefined

  constructor(deps: ConnectTimeDeps) {
    this.#deps = deps
    this.#capacity = deps.capacity ?? usualCapacity
    this.#wanted = new WantedEntries(this.#capacity)
    const { tools, observer } = deps
    this.#udp = new UdpEnds({ tools, failed: reason => observer.udpFailed(reason) })
  }

  /** Begins as soon as no other process leads; nobody waits for that. */
  start(): void {
    const { lock, resync, observer, exemptSelf } = this.#deps
    const begin = async (): Promise<void> => {
      exemptSelf?.()
      this.#hasLock = await lock.acquire()
      if (this.#hasLock) resync()
    }
    begin().catch((error: unknown) => {
      this.#error = `${errorOf(error).message}; the proxy mode carries all clients`
      observer.failed(errorOf(error), false)
    })
  }

  /** `waiting`: for another process to end. */
  get state(): 'leading' | 'waiting' | 'failed' {
    if (this.#error !== '') return 'failed'
    return this.#steering === undefined ? 'waiting' : 'leading'
  }

  /** Why clients may be steered to what is gone; '' when they are not. */
  get staleSteeringError(): string {
    return this.#staleSteeringError
  }

  /** Those for which there is no room. */
  get left(): readonly ServicePort[] {
    return this.#left
  }

  /** Where processes of this node are led that connect to a VIP, if they are. */
  inspectCommands(servicePort: ServicePort, vip: Vip): readonly InspectCommand[] {
    const isLed = this.state === 'leading' && !this.#left.includes(servicePort)
    const entry = isLed ? entryOf(servicePort, vip) : undefined
    const steering = this.#steering
    if (entry === undefined || steering === undefined) return []
    const bytes = Buffer.from(entry.key, 'latin1').toString('hex').match(/../g) ?? []
    // By their files: another Usher, in another cgroup, has maps of these names, too.
    const [services, affinity] = [
      steering.pathOf('services'),
      steering.pathOf('affinity'),
    ]
    return [
      {
        what: 'processes on this node are led as they connect: map us_services',
        command: `bpftool map lookup pinned ${services} key hex ${bytes.join(' ')}`,
      },
      ...(servicePort.affinityMs > 0
        ? [
            {
              what: `${boundClients}: map us_affinity, of all Services`,
              command: `bpftool map dump pinned ${affinity}`,
            },
          ]
        : []),
    ]
  }

  /** By ServicePort, how many were led and refused. */
  async counts(snapshots: readonly Snapshot[]): Promise<readonly LedCount[]> {
    const steering = this.#steering
    if (steering === undefined) return []
    return this.#groups.count(
      joinLists(snapshots.map(listOfServicePorts)),
      steering.entries('counts'),
    )
  }

  get problems(): readonly Problem[] {
    const object = 'connect-time steering'
    const [first] = this.#left
    return [
      ...[this.#error, this.#udp.error]
        .filter(message => message !== '')
        .map(message => ({ object, field: '', message })),
      ...(first === undefined
        ? []
        : [
            {
              object,
              field: 'capacity',
              message: `its tables have no room for ${this.#left.length} ServicePorts (such as ${first.name}): the proxy mode carries their clients`,
            },
          ]),
    ]
  }

  /** Never rejects; what fails is tried again by the next one. Calls don't overlap. */
  sync(snapshots: readonly Snapshot[]): Promise<void> {
    if (!this.#hasLock || this.#isEnding) return Promise.resolve()
    return (this.#underWay = this.#sync(snapshots))
  }

  /** Nothing is done any more; what is led goes on without this process. */
  async stop(): Promise<void> {
    await this.#end()
    await this.#deps.lock.release()
  }

  /** In place of `stop`, after which it does nothing: nobody is led any more. Rejects where something stays. */
  async remove(): Promise<void> {
    const isLeading = this.#hasLock && !this.#isEnding
    await this.#end()
    try {
      if (isLeading) this.#deps.pins.removeOthers()
    } finally {
      await this.#deps.lock.release()
    }
  }

  async #end(): Promise<void> {
    this.#isEnding = true
    this.#watch?.stop()
    await this.#underWay
    await this.#udp.stop()
    this.#letGo()
  }

  async #sync(snapshots: readonly Snapshot[]): Promise<void> {
    const { clock, observer } = this.#deps
    const started = clock.now()
    try {
      // What the kernel refuses once may be damage: all is made anew.
      await this.#write(snapshots).catch(() => this.#write(snapshots))
      this.#error = ''
      this.#staleSteeringError = ''
      this.#endUdp(snapshots)
      observer.synced((clock.now() - started) / 1000)
    } catch (error) {
      this.#giveUp(errorOf(error))
    }
  }

  async #write(snapshots: readonly Snapshot[]): Promise<void> {
    const { nodeAddresses, exempt = () => [] } = this.#deps
    await this.#known.write(async known => {
      if (known === undefined) this.#letGo()
      this.#nodeAddresses = nodeAddresses(snapshots)
      this.#exempt = exempt()
      const { changes, left } = await this.#wanted.take(snapshots, [
        ...this.#nodeAddresses.map(compileNodeAddress),
        ...this.#exempt.map(compileExempt),
      ])
      this.#left = left
      if (known !== undefined) {
        await known.writer.write(changes)
        return known
      }
      const steering = (this.#steering = this.#open())
      await steering.writer.writeAll(changes)
      steering.attach()
      return steering
    })
    if (!this.#isEnding) this.#watch ??= this.#watched()
  }

  #open(): Steering {
    const { services, slots, members } = this.#capacity
    const sizes = {
      services: 2 * services,
      slots: 2 * slots,
      members: 2 * members,
      sockets,
    }
    return new Steering({ ...this.#deps, sizes })
  }

  #endUdp(snapshots: readonly Snapshot[]): void {
    const steering = this.#steering
    if (steering === undefined) return
    const servicePorts = joinLists(snapshots.map(listOfServicePorts))
    const led = { servicePorts, nodeAddresses: this.#nodeAddresses }
    this.#udp.end(led, () => steering.entries('reverse'))
  }

  #letGo(): void {
    this.#udp.forget()
    this.#steering?.close()
    this.#steering = undefined
    this.#wanted = new WantedEntries(this.#capacity)
  }

  /** Better not led than led by what is old. */
  #giveUp(error: Error): void {
    this.#letGo()
    this.#error = `${error.message}; the proxy mode carries all clients`
    try {
      this.#deps.pins.removeOthers()
      this.#staleSteeringError = ''
    } catch (cause) {
      this.#staleSteeringError = `connect-time steering leads clients by old entries, as its programs can't be removed: ${errorOf(cause).message}`
      this.#error = `${error.message}; ${this.#staleSteeringError}`
    }
    this.#deps.observer.failed(error, this.#staleSteeringError !== '')
  }

  #watched(): Canary<Steering> {
    const { clock, observer, resync, exempt = () => [] } = this.#deps
    return new Canary({
      clock,
      installed: this.#known,
      findDamage: async steering => {
        if (exempt().join() !== this.#exempt.join()) resync()
        return damageOf(steering)
      },
      damaged: what => {
        observer.damaged(what)
        // Its descriptors are closed by the next sync, which may be under way.
        this.#known.forget()
        resync()
      },
    })
  }
}

/** What can't be looked at is made anew, too. */
const damageOf = (steering: Steering): string => {
  try {
    return steering.damage()
  } catch (error) {
    return errorOf(error).message
  }
}

/** How many elements of each table may be wanted at once. */
export type Capacity = Readonly<Record<'members' | 'slots' | 'services', number>>

interface EntryChanges {
  readonly changes: ElementChanges
  /** Those for which there is no room; the proxy mode carries their clients. */
  readonly left: readonly ServicePort[]
}

/** What the tables should have, kept up from snapshot to snapshot. */
export class WantedEntries {
  readonly #capacity: Capacity
  readonly #sizes = Object.fromEntries(writtenTables.map(name => [name, 0])) as Record<
    WrittenTable,
    number
  >
  #others: readonly Entry[] = []
  #entered: readonly ServicePort[] = []

  constructor(capacity: Capacity) {
    this.#capacity = capacity
  }

  /**
   * Gives what is different now; costs what changed, by `===` of ServicePorts.
   * @param others - all that are of no ServicePort
   */
  async take(
    snapshots: readonly Snapshot[],
    others: readonly Entry[],
  ): Promise<EntryChanges> {
    const changes = new ElementChanges()
    for (const one of this.#others) changes.gone(one)
    for (const one of others) changes.come(one)
    this.#others = others
    const all = joinLists(snapshots.map(listOfServicePorts))
    const { before, after } = listDiff(this.#entered, all)
    await forEachYielding(before, one => {
      const elements = compile(one)
      for (const each of elements) changes.gone(each)
      this.#count(elements, -1)
    })
    const left = new Set<ServicePort>()
    await forEachYielding(after, one => {
      const elements = compile(one)
      this.#count(elements, 1)
      if (this.#isFull()) {
        this.#count(elements, -1)
        left.add(one)
      } else for (const each of elements) changes.come(each)
    })
    this.#entered = left.size === 0 ? all : all.filter(one => !left.has(one))
    return { changes, left: [...left] }
  }

  #count(elements: readonly Entry[], by: 1 | -1): void {
    for (const { set } of elements) this.#sizes[set] += by
  }

  #isFull(): boolean {
    const { members, slots, services } = this.#sizes
    const most = this.#capacity
    return members > most.members || slots > most.slots || services > most.services
  }
}
