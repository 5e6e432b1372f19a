import type { Problem, ServicePort, Snapshot } from '../../model/snapshot.ts'
import type { Clock } from '../../util/clock.ts'
import { errorOf } from '../../util/usher-error.ts'
import type { Bpf } from '../bpf/bpf.ts'
import type { Pins } from '../bpf/pins.ts'
import { Canary } from '../keeper/canary.ts'
import type { HostLock } from '../keeper/host-lock.ts'
import { Known } from '../keeper/known.ts'
import type { Features } from './forward.ts'
import { Steering } from './steering.ts'
import { type Capacity, WantedEntries } from './wanted-entries.ts'

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
  /** Asks for a sync soon. */
  readonly resync: () => void
  readonly observer: ConnectTimeObserver
  /** Elements of tables at once; for tests. */
  readonly capacity?: Capacity
}

export interface ConnectTimeObserver {
  synced(seconds: number): void
  /** Clients go the proxy mode's way, unless `stays`: then old entries lead them still. */
  failed(error: Error, stays: boolean): void
  /** Others have changed it; it is made anew. */
  damaged(what: string): void
}

/** A hundred thousand endpoints; twice as many have room, as a list is replaced by the next one. */
const usualCapacity: Capacity = { services: 65_536, slots: 131_072, members: 131_072 }
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
  #isMine = false
  #isEnding = false
  #underWay: Promise<void> = Promise.resolve()
  readonly #known = new Known<Steering>()
  #watch: Canary<Steering> | undefined

  constructor(deps: ConnectTimeDeps) {
    this.#deps = deps
    this.#capacity = deps.capacity ?? usualCapacity
    this.#wanted = new WantedEntries(this.#capacity)
  }

  /** Begins as soon as no other process leads; nobody waits for that. */
  start(): void {
    const { lock, resync, observer } = this.#deps
    lock.acquire().then(
      isMine => {
        this.#isMine = isMine
        if (isMine) resync()
      },
      (error: unknown) => observer.failed(errorOf(error), false),
    )
  }

  /** `waiting`: for another process to end. */
  get state(): 'leading' | 'waiting' | 'failed' {
    if (this.#error !== '') return 'failed'
    return this.#steering === undefined ? 'waiting' : 'leading'
  }

  /** Those for which there is no room. */
  get left(): readonly ServicePort[] {
    return this.#left
  }

  /** What has tables to be read; undefined while nobody is led. */
  get steering(): Steering | undefined {
    return this.#steering
  }

  get problems(): readonly Problem[] {
    const object = 'connect-time steering'
    const [first] = this.#left
    return [
      ...(this.#error === '' ? [] : [{ object, field: '', message: this.#error }]),
      ...(first === undefined
        ? []
        : [
            {
              object,
              field: 'capacity',
              message: `its tables have no room for ${this.#left.length} ServicePorts (${first.name} is one): the proxy mode carries their clients`,
            },
          ]),
    ]
  }

  /** Never rejects; what fails is tried again by the next one. Calls don't overlap. */
  sync(snapshots: readonly Snapshot[]): Promise<void> {
    if (!this.#isMine || this.#isEnding) return Promise.resolve()
    return (this.#underWay = this.#sync(snapshots))
  }

  /** Nothing is done any more; what is led goes on without this process. */
  async stop(): Promise<void> {
    await this.#end()
    await this.#deps.lock.release()
  }

  /** In place of `stop`: nobody is led any more. Rejects where something stays. */
  async remove(): Promise<void> {
    await this.#end()
    try {
      if (this.#isMine) this.#deps.pins.removeOthers()
    } finally {
      await this.#deps.lock.release()
    }
  }

  async #end(): Promise<void> {
    this.#isEnding = true
    this.#watch?.stop()
    await this.#underWay
    this.#letGo()
  }

  async #sync(snapshots: readonly Snapshot[]): Promise<void> {
    const { clock, observer } = this.#deps
    const started = clock.now()
    try {
      // What the kernel refuses once may be damage: all is made anew.
      await this.#write(snapshots).catch(() => this.#write(snapshots))
      this.#error = ''
      observer.synced((clock.now() - started) / 1000)
    } catch (error) {
      this.#giveUp(errorOf(error))
    }
  }

  async #write(snapshots: readonly Snapshot[]): Promise<void> {
    const { nodeAddresses } = this.#deps
    await this.#known.write(async known => {
      if (known === undefined) this.#letGo()
      const addresses = nodeAddresses(snapshots)
      const { changes, left } = await this.#wanted.take(snapshots, addresses)
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
    const { services, slots } = this.#capacity
    const sizes = { services: 2 * services, slots: 2 * slots, sockets }
    return new Steering({ ...this.#deps, sizes })
  }

  #letGo(): void {
    this.#steering?.close()
    this.#steering = undefined
    this.#wanted = new WantedEntries(this.#capacity)
  }

  /** Better not led than led by what is old. */
  #giveUp(error: Error): void {
    this.#letGo()
    this.#error = `${error.message}; the proxy mode carries all clients`
    let stays = false
    try {
      this.#deps.pins.removeOthers()
    } catch (cause) {
      stays = true
      this.#error = `${error.message}; old entries lead clients still, as programs can't be removed: ${errorOf(cause).message}`
    }
    this.#deps.observer.failed(error, stays)
  }

  #watched(): Canary<Steering> {
    const { clock, observer, resync } = this.#deps
    return new Canary({
      clock,
      known: this.#known,
      look: async steering => damageOf(steering),
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
