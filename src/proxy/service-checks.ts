import { usualRules } from '../health/check.ts'
import { type CheckedGroup, GroupHealth } from '../health/group-health.ts'
import type { Health } from '../health/health-checker.ts'
import type { WhoIsDown } from '../model/checked-endpoints.ts'
import type { Endpoint } from '../model/snapshot.ts'
import type { Log } from '../observe/log.ts'
import type { Clock } from '../util/clock.ts'

interface ServiceChecksDeps {
  readonly clock: Clock
  readonly log: Log
  /** Called when `whoIsDown` says something else of the Service (`namespace/name`). */
  readonly turned: (service: string) => void
}

/** Checks of the endpoints of those Services that ask for it by annotation. */
export class ServiceChecks {
  readonly #health: GroupHealth

  constructor({ clock, log, turned }: ServiceChecksDeps) {
    this.#health = new GroupHealth({
      clock,
      turned: ({ group: service, endpoint, up, why }) => {
        if (up) log.info({ service, endpoint }, 'an endpoint is up')
        else log.warn({ service, endpoint, why }, 'an endpoint is down')
        turned(service)
      },
    })
  }

  readonly whoIsDown =
    (service: string): WhoIsDown =>
    endpoints =>
      this.#health.downOf(groupOf(service, endpoints))

  /** Checks the endpoints of these Services, and no others. */
  watch(services: ReadonlyMap<string, readonly Endpoint[]>): void {
    this.#health.watch(
      Array.from(services, ([service, endpoints]) => groupOf(service, endpoints)),
    )
  }

  /** What checks say of an endpoint (`ip:port`); undefined when it is not checked. */
  healthOf(service: string, endpoint: string): Health | undefined {
    return this.#health.healthOf(service, endpoint)
  }

  close(): Promise<void> {
    return this.#health.close()
  }
}

const option = { check: { type: 'tcp' }, rules: usualRules } as const

const groupOf = (name: string, endpoints: readonly Endpoint[]): CheckedGroup => ({
  name,
  option,
  endpoints: endpoints.map(({ address, port }) => ({ address, port, host: '' })),
})
