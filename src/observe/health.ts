import type { BindState } from '../relay/relay.ts'
import type { Clock } from '../util/clock.ts'
import { familyOf, ipFamilies, type IpFamily, joinHostPort } from '../util/ip.ts'

export interface HealthOptions {
  readonly clock: Clock
  /** Why clients may be led to what is gone, which a restart may mend; '' by default. */
  readonly staleSteeringError?: () => string
  /** Milliseconds; what waits or fails for twice as long is red. kube-proxy's is 30 s. */
  readonly syncPeriodMs: number
  /** What wanted binds are doing now; only failed ones matter, and others may be left out. */
  readonly binds: () => Iterable<BindState>
  readonly sourceSynced: () => boolean
  /** Workers of the relay that give no sign of life; none by default. */
  readonly hungWorkers?: () => Iterable<number>
  /** While there is no process of the relay; never by default. */
  readonly relayGone?: () => RelayGone | undefined
  /** Epoch milliseconds, to compare with `since` of a bind; Date.now. */
  readonly epoch?: () => number
}

export interface RelayGone {
  /** How it has ended, in words. */
  readonly reason: string
  /** `Clock` time. */
  readonly since: number
}

export interface FamilyHealth {
  /** For `/healthz`: traffic for this node is served. */
  readonly healthy: boolean
  /** For `/livez`: the process does its work. */
  readonly live: boolean
  /** Epoch milliseconds at which the wanted state was last applied; undefined before. */
  readonly lastUpdated: number | undefined
}

export interface HealthReport extends FamilyHealth {
  /** Something carries connections, or will in a moment. */
  readonly carried: boolean
  /** What is red, in words; empty when healthy. */
  readonly reasons: readonly string[]
  readonly families: Readonly<Record<IpFamily, FamilyHealth>>
}

interface FamilyState {
  /** `Clock` time of the oldest change that is not applied. */
  pendingSince: number | undefined
  lastUpdated: number | undefined
}

/** One that dies once is replaced sooner, and no reason to send clients elsewhere. */
const longestGoneMs = 2000

const seconds = (ms: number): string => `${Math.floor(ms / 1000)} s`

/**
 * Whether the wanted state is applied, judged per IP family and when asked.
 *
 * `live` is kube-proxy's rule: red while a wanted state has been waiting for two sync
 * periods or more, and while a worker of the relay hangs. That is what a restart may mend.
 * `healthy` tells load balancers whether to send, and is also red before the source's first
 * state has been applied (nothing is served yet), while a port can't be bound, and while the
 * relay's process is gone for longer than it takes to start another, which is tried all the
 * time: a restart mends none of that, and an API server that is away must not have every node proxy of the
 * cluster killed by its liveness probe.
 * A family that nothing is wanted of waits for nothing, and is green.
 */
export class Health {
  readonly #options: HealthOptions
  readonly #epoch: () => number
  readonly #families: Readonly<Record<IpFamily, FamilyState>> = {
    IPv4: { pendingSince: undefined, lastUpdated: undefined },
    IPv6: { pendingSince: undefined, lastUpdated: undefined },
  }

  constructor(options: HealthOptions) {
    this.#options = options
    this.#epoch = options.epoch ?? Date.now
  }

  /** A wanted state waits to be applied. Later ones do not make the first one younger. */
  queued(family: IpFamily): void {
    this.#families[family].pendingSince ??= this.#options.clock.now()
  }

  /** The newest wanted state of the family has been applied. */
  applied(family: IpFamily): void {
    const state = this.#families[family]
    state.pendingSince = undefined
    state.lastUpdated = this.#epoch()
  }

  report(): HealthReport {
    const unread = this.#unread()
    const hung = [...this.#hung(), ...this.#staleSteering()]
    const gone = this.#gone()
    const waiting: Record<IpFamily, string[]> = {
      IPv4: this.#waiting('IPv4'),
      IPv6: this.#waiting('IPv6'),
    }
    const failing = this.#failing()
    const family = (name: IpFamily): FamilyHealth => ({
      healthy: [unread, hung, gone, waiting[name], failing[name]].every(
        list => list.length === 0,
      ),
      live: hung.length === 0 && waiting[name].length === 0,
      lastUpdated: this.#families[name].lastUpdated,
    })
    const families = { IPv4: family('IPv4'), IPv6: family('IPv6') }
    const each = ipFamilies.map(name => families[name])
    const updates = each.flatMap(({ lastUpdated }) => lastUpdated ?? [])
    return {
      healthy: each.every(({ healthy }) => healthy),
      live: each.every(({ live }) => live),
      lastUpdated: updates.length === 0 ? undefined : Math.max(...updates),
      carried: gone.length === 0,
      reasons: [
        ...unread,
        ...hung,
        ...gone,
        ...ipFamilies.flatMap(name => waiting[name].concat(failing[name])),
      ],
      families,
    }
  }

  #unread(): string[] {
    if (!this.#options.sourceSynced()) return ['the source has not been read completely']
    const applied = ipFamilies.some(
      name => this.#families[name].lastUpdated !== undefined,
    )
    return applied ? [] : ['no sync has completed yet']
  }

  #hung(): string[] {
    const workers = [...(this.#options.hungWorkers?.() ?? [])]
    return workers.map(worker => `worker ${worker} of the relay gives no sign of life`)
  }

  #staleSteering(): string[] {
    const reason = this.#options.staleSteeringError?.() ?? ''
    return reason === '' ? [] : [reason]
  }

  #gone(): string[] {
    const gone = this.#options.relayGone?.()
    if (gone === undefined) return []
    const ms = this.#options.clock.now() - gone.since
    if (ms < longestGoneMs) return []
    return [`no data plane has served for ${seconds(ms)}: the last one ${gone.reason}`]
  }

  #tooLong(ms: number): boolean {
    return ms >= 2 * this.#options.syncPeriodMs
  }

  #waiting(family: IpFamily): string[] {
    const { pendingSince } = this.#families[family]
    if (pendingSince === undefined) return []
    const waited = this.#options.clock.now() - pendingSince
    return this.#tooLong(waited)
      ? [`a change of ${family} has been waiting to be applied for ${seconds(waited)}`]
      : []
  }

  #failing(): Record<IpFamily, string[]> {
    const reasons: Record<IpFamily, string[]> = { IPv4: [], IPv6: [] }
    for (const state of this.#options.binds()) {
      if (state.state !== 'failed' || state.isIdle === true) continue
      const failed = this.#epoch() - state.since
      const { address, port } = state.bind
      reasons[familyOf(address) ?? 'IPv4'].push(
        `cannot listen on ${joinHostPort(address, port)} for ${seconds(failed)}: ${state.error}`,
      )
    }
    return reasons
  }
}
