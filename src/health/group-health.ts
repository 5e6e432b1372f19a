import type { Clock } from '../util/clock.ts'
import { joinHostPort } from '../util/ip.ts'
import type { Check, CheckedEndpoint } from './check.ts'
import type { CheckOption } from './check-option.ts'
import { type CheckTarget, type Health, HealthChecker } from './health-checker.ts'

/** Endpoints that stand in for each other: of a route, or of a Service. */
export interface CheckedGroup {
  /** Without spaces. An endpoint in several groups of one name is checked once. */
  readonly name: string
  readonly option: CheckOption
  readonly endpoints: readonly CheckedEndpoint[]
}

/** An endpoint has turned, or its first check has found it down. */
export interface GroupTurn {
  /** Its name. */
  readonly group: string
  readonly endpoint: string
  /** The name that its address was found by; '' when it was given by address. */
  readonly host: string
  readonly up: boolean
  /** Why it is down; '' when it is up. */
  readonly why: string
}

export interface GroupHealthOptions {
  readonly clock: Clock
  readonly turned: (turn: GroupTurn) => void
}

type Place = Pick<CheckedEndpoint, 'address' | 'port'>

/** Which endpoints of groups are down. */
export class GroupHealth {
  readonly #checker: HealthChecker

  constructor({ clock, turned }: GroupHealthOptions) {
    this.#checker = new HealthChecker({
      clock,
      changed: ({ key, address, port }, { up, why, host }: Health) => {
        const [group = ''] = key.split(' ')
        turned({ group, endpoint: joinHostPort(address, port), host, up, why })
      },
    })
  }

  /** Checks the endpoints of these groups, and no others. */
  watch(groups: readonly CheckedGroup[]): void {
    const targets = new Map<string, CheckTarget>()
    for (const { name, option, endpoints } of groups)
      for (const endpoint of endpoints) {
        const key = keyAt(name, endpoint)
        targets.set(key, { ...endpoint, ...option, key })
      }
    this.#checker.set([...targets.values()])
  }

  /**
   * Tells who is down. When all are, none is: one of them may serve all the same. Not so where
   * the check asks for a role, which it would be wrong to take from another.
   */
  downOf({ name, option, endpoints }: CheckedGroup): (place: Place) => boolean {
    const keys = endpoints.map(endpoint => keyAt(name, endpoint))
    const down = new Set(keys.filter(key => this.#checker.healthOf(key)?.up === false))
    if (down.size === new Set(keys).size && !asksForRole(option.check)) return () => false
    return place => down.has(keyAt(name, place))
  }

  /** What checks say of an endpoint (`ip:port`) of a group; undefined when it is not checked. */
  healthOf(name: string, endpoint: string): Health | undefined {
    return this.#checker.healthOf(keyOf(name, endpoint))
  }

  close(): Promise<void> {
    return this.#checker.close()
  }
}

const keyOf = (name: string, endpoint: string): string => `${name} ${endpoint}`

const keyAt = (name: string, { address, port }: Place): string =>
  keyOf(name, joinHostPort(address, port))

const asksForRole = (check: Check): boolean =>
  check.type === 'http' || (check.type === 'redis' && check.role !== undefined)
