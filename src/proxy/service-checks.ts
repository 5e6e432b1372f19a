import { usualRules } from '../health/check.ts'
import { type CheckedGroup, GroupHealth } from '../health/group-health.ts'
import type { Health } from '../health/health-checker.ts'
import type { CheckedEndpoint, WhoIsDown } from '../model/checked-endpoints.ts'
import type { Log } from '../observe/log.ts'
import type { Clock } from '../util/clock.ts'
import { turnLog } from './turn-log.ts'

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
    const say = turnLog(log, 'service')
    this.#health = new GroupHealth({
      clock,
      turned: turn => {
        say(turn)
        turned(turn.group)
      },
    })
  }

  readonly whoIsDown =
    (service: string): WhoIsDown =>
    endpoints =>
      this.#health.downOf(groupOf(service, endpoints))

  /** Checks the endpoints of these Services, and no others. */
  watch(services: ReadonlyMap<string, readonly CheckedEndpoint[]>): void {
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

const groupOf = (name: string, endpoints: readonly CheckedEndpoint[]): CheckedGroup => ({
  name,
  option,
  endpoints: endpoints.map(({ address, port, proxyProtocol }) => ({
    address,
    port,
    host: '',
    proxyProtocol,
  })),
})
