import { isDeepStrictEqual } from 'node:util'
import { type IpFamily, perFamily } from '../util/ip.ts'
import type { EndpointSlice, Service } from './service.ts'

/** Changes that wait to be brought into effect. */
export interface PendingChanges {
  /** Services that are not as they were when last checked out. */
  readonly services: number
  /** Changes of EndpointSlices. */
  readonly endpoints: number
}

/** What came since the last checkout. */
export interface CheckedOut {
  /** Changes of Services; one that changed twice counts twice. */
  readonly services: number
  readonly endpoints: number
  readonly triggerTimes: TriggerTimes
}

/** Epoch milliseconds of last-change-trigger-time of the slices that changed, by family. */
export type TriggerTimes = Readonly<Record<IpFamily, readonly number[]>>

/** When something happened to a slice of that family. */
interface Triggers {
  readonly family: IpFamily
  readonly times: number[]
}

/** More than a sync can take in; without a reader the list must have a bound. */
const mostTriggerTimes = 20_000

/**
 * Counts changes as kube-proxy's change trackers do for their metrics. An object that
 * arrives again as it was is no change and never gets here.
 */
export class ChangeTracker {
  readonly #startedAt: number
  /** As they were at the last checkout. */
  readonly #before = new Map<string, Service | undefined>()
  /** By slice. */
  readonly #triggerTimes = new Map<string, Triggers>()
  #triggers = 0
  #services = 0
  #endpoints = 0

  /** Trigger times not after `startedAt`, epoch milliseconds, say nothing about this process. */
  constructor(startedAt: number) {
    this.#startedAt = startedAt
  }

  service(key: string, before: Service | undefined, after: Service | undefined): void {
    this.#services++
    if (!this.#before.has(key)) this.#before.set(key, before)
    else if (isDeepStrictEqual(this.#before.get(key), after)) this.#before.delete(key)
  }

  /** A slice that changed, or with undefined went: its time is that of an older change. */
  slice(id: string, slice: EndpointSlice | undefined): void {
    this.#endpoints++
    if (slice === undefined) {
      this.#triggers -= this.#triggerTimes.get(id)?.times.length ?? 0
      this.#triggerTimes.delete(id)
      return
    }
    const { lastChangeTriggerTime: time, family } = slice
    if (time <= this.#startedAt || this.#triggers >= mostTriggerTimes) return
    this.#triggers++
    const triggers = this.#triggerTimes.get(id)
    if (triggers === undefined) this.#triggerTimes.set(id, { family, times: [time] })
    else triggers.times.push(time)
  }

  pending(): PendingChanges {
    return { services: this.#before.size, endpoints: this.#endpoints }
  }

  checkout(): CheckedOut {
    const triggerTimes = perFamily((): number[] => [])
    for (const { family, times } of this.#triggerTimes.values())
      triggerTimes[family].push(...times)
    const changes = {
      services: this.#services,
      endpoints: this.#endpoints,
      triggerTimes,
    }
    this.#before.clear()
    this.#triggerTimes.clear()
    this.#triggers = this.#services = this.#endpoints = 0
    return changes
  }
}
