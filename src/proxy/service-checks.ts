import { usualRules } from '../health/check.ts'
import {
  type CheckedGroup,
  GroupHealth,
  type GroupHealthOptions,
  type GroupTurn,
} from '../health/group-health.ts'
import type { Health } from '../health/health-checker.ts'
import type { CheckedEndpoint, Judge } from '../model/checked-endpoints.ts'
import type { CheckEffects } from '../model/service.ts'
import type { Log } from '../observe/log.ts'

/** Logs that an endpoint has turned; `kind` is what its group is. */
export const turnLog =
  (log: Log, kind: 'route' | 'service') =>
  ({ group, endpoint, host, up, reason }: GroupTurn): void => {
    const where = { [kind]: group, endpoint, ...(host !== '' && { host }) }
    if (up) log.info(where, 'an endpoint is up')
    else log.warn({ ...where, why: reason }, 'an endpoint is down')
  }

interface ServiceChecksDeps extends Pick<GroupHealthOptions, 'clock' | 'changed'> {
  readonly log: Log
}

/**
 * Checks of the endpoints of those Services that ask for it by annotation. `changed` is called with
 * `namespace/name` of one of which `judge` says something else.
 */
export class ServiceChecks {
  readonly #health: GroupHealth

  constructor({ clock, log, changed }: ServiceChecksDeps) {
    this.#health = new GroupHealth({ clock, changed, turned: turnLog(log, 'service') })
  }

  readonly judge =
    (service: string): Judge =>
    (endpoints, effects) =>
      this.#health.judge(groupOf(service, endpoints, effects))

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

const groupOf = (
  name: string,
  endpoints: readonly CheckedEndpoint[],
  effects: CheckEffects = {},
): CheckedGroup => ({
  name,
  option,
  effects,
  endpoints: endpoints.map(({ address, port, tier, weight, proxyProtocol }) => ({
    address,
    port,
    host: '',
    tier,
    weight,
    proxyProtocol,
  })),
})
