import type { CheckEffects, Verdict } from '../model/service.ts'
import type { Clock } from '../util/clock.ts'
import { joinHostPort } from '../util/ip.ts'
import type { CheckedEndpoint } from './check.ts'
import { asksForRole, type CheckOption } from './check-option.ts'
import { type CheckTarget, type Health, HealthChecker } from './health-checker.ts'

/** Endpoints that stand in for each other: of a route, or of a Service. */
export interface CheckedGroup {
  /** Without spaces. An endpoint in several groups of one name is checked once. */
  readonly name: string
  readonly option: CheckOption
  readonly effects: CheckEffects
  readonly endpoints: readonly GroupEndpoint[]
}

export interface GroupEndpoint extends CheckedEndpoint {
  readonly tier?: number | undefined
  /** One with 0 is for when the others of its tier fail. */
  readonly weight?: number | undefined
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
  /** For people to know. */
  readonly turned: (turn: GroupTurn) => void
  /** What is said of the endpoints of this group may be something else now. */
  readonly changed: (group: string) => void
}

type Place = Pick<CheckedEndpoint, 'address' | 'port'>

const usable: Verdict = { isDown: false }

/** Which endpoints of groups are down. */
export class GroupHealth {
  readonly #checker: HealthChecker

  constructor({ clock, turned, changed }: GroupHealthOptions) {
    this.#checker = new HealthChecker({
      clock,
      changed: ({ key, address, port }, { up, why, host }, hasTurned) => {
        const [group = ''] = key.split(' ')
        const endpoint = joinHostPort(address, port)
        if (hasTurned) turned({ group, endpoint, host, up, why })
        changed(group)
      },
    })
  }

  /**
   * Checks the endpoints of these groups, and no others. `used`: groups' names with endpoints that get
   * connections already, for whom `init` is not: `db 10.0.0.5:5432`.
   */
  watch(groups: readonly CheckedGroup[], used?: ReadonlySet<string>): void {
    const targets = new Map<string, CheckTarget>()
    for (const { name, option, endpoints } of groups)
      for (const { address, port, host, proxyProtocol } of endpoints) {
        const key = keyAt(name, { address, port })
        targets.set(key, { address, port, host, proxyProtocol, ...option, key })
      }
    this.#checker.set([...targets.values()], used)
  }

  /**
   * What is said of a group's endpoints. `init` and one failure keep an endpoint from being picked,
   * and cut nothing.
   */
  judge({ name, option, effects, endpoints }: CheckedGroup): (place: Place) => Verdict {
    const { whenAllDown = asksForRole(option.check) ? 'refuse' : 'try' } = effects
    const known = new Map(
      endpoints.flatMap(endpoint => {
        const key = keyAt(name, endpoint)
        const health = this.#checker.healthOf(key)
        return health === undefined ? [] : [[key, { health, endpoint }] as const]
      }),
    )
    const all = [...known.values()]
    const triesAll =
      whenAllDown === 'try' && all.every(({ health }) => health.isKnown && !health.up)
    const firstRank = Math.min(
      ...all.filter(isKnownUp).map(({ endpoint }) => rankOf(endpoint)),
    )
    return place => {
      const one = known.get(keyAt(name, place))
      if (one === undefined) return usable
      const { up, isLost } = one.health
      const isBackup = rankOf(one.endpoint) > firstRank
      return {
        isDown: !up && !triesAll,
        ...(effects.onBack === 'reset' && isBackup && { cut: 'backup' }),
        ...(effects.onDown === 'reset' && isLost && { cut: 'down' }),
      }
    }
  }

  /** Whether none of a group is up, and some have yet to be asked. */
  awaits({ name, endpoints }: CheckedGroup): boolean {
    const all = endpoints.flatMap(
      endpoint => this.#checker.healthOf(keyAt(name, endpoint)) ?? [],
    )
    return !all.some(({ up }) => up) && all.some(({ isKnown }) => !isKnown)
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

const isKnownUp = ({ health: { isKnown, up } }: { readonly health: Health }): boolean =>
  isKnown && up

/** Those with a higher one are for when those with lower ones fail. */
const rankOf = ({ tier = 0, weight }: GroupEndpoint): number =>
  2 * tier + (weight === 0 ? 1 : 0)
