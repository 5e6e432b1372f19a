import type { BindState } from '../relay/relay.ts'
import type { Clock } from '../util/clock.ts'
import { familyOf, ipFamilies, joinHostPort } from '../util/ip.ts'
import type { IpFamily } from '../util/ip.ts'

export interface HealthOptions {
  readonly clock: Clock
  /** Milliseconds; what waits or fails for twice as long is red. kube-proxy's is 30 s. */
  readonly syncPeriodMs: number
  /** What each wanted bind is doing now. */
  readonly binds: () => Iterable<BindState>
  readonly sourceSynced: () => boolean
  /** Epoch milliseconds, to compare with `since` of a bind; Date.now. */
  readonly epoch?: () => number
}

export interface FamilyHealth {
  readonly healthy: boolean
  /** Epoch milliseconds at which the wanted state was last applied; undefined before. */
  readonly lastUpdated: number | undefined
}

export interface HealthReport extends FamilyHealth {
  /** What is red, in words; empty when healthy. */
  readonly reasons: readonly string[]
  readonly families: Readonly<Record<IpFamily, FamilyHealth>>
}

const seconds = (ms: number): string => `${Math.floor(ms / 1000)} s`

/** Whether the wanted state is applied, judged when asked. */
export class Health {
  readonly #options: HealthOptions
  readonly #epoch: () => number
  /** `Clock` time of the oldest change that is not applied. */
  #pendingSince: number | undefined
  #lastUpdated: number | undefined

  constructor(options: HealthOptions) {
    this.#options = options
    this.#epoch = options.epoch ?? Date.now
  }

  /** A wanted state waits to be applied. Later ones do not make the first one younger. */
  queued(): void {
    this.#pendingSince ??= this.#options.clock.now()
  }

  /** The newest wanted state has been applied. */
  applied(): void {
    this.#pendingSince = undefined
    this.#lastUpdated = this.#epoch()
  }

  report(): HealthReport {
    const shared = [...this.#notSynced(), ...this.#waiting()]
    const failing = this.#failing()
    const family = (name: IpFamily): FamilyHealth => ({
      healthy: shared.length === 0 && failing[name].length === 0,
      lastUpdated: this.#lastUpdated,
    })
    const reasons = [...shared, ...ipFamilies.flatMap(name => failing[name])]
    return {
      healthy: reasons.length === 0,
      lastUpdated: this.#lastUpdated,
      reasons,
      families: { IPv4: family('IPv4'), IPv6: family('IPv6') },
    }
  }

  #tooLong(ms: number): boolean {
    return ms >= 2 * this.#options.syncPeriodMs
  }

  #notSynced(): string[] {
    return this.#options.sourceSynced() ? [] : ['the source has not been read completely']
  }

  #waiting(): string[] {
    if (this.#pendingSince === undefined) return []
    const waited = this.#options.clock.now() - this.#pendingSince
    return this.#tooLong(waited)
      ? [`a change has been waiting to be applied for ${seconds(waited)}`]
      : []
  }

  #failing(): Record<IpFamily, string[]> {
    const reasons: Record<IpFamily, string[]> = { IPv4: [], IPv6: [] }
    for (const state of this.#options.binds()) {
      if (state.state !== 'failed') continue
      const failed = this.#epoch() - state.since
      if (!this.#tooLong(failed)) continue
      const { address, port } = state.bind
      reasons[familyOf(address) ?? 'IPv4'].push(
        `cannot listen on ${joinHostPort(address, port)} for ${seconds(failed)}: ${state.error}`,
      )
    }
    return reasons
  }
}
