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
  readonly reason: string
}

export interface GroupHealthOptions {
  readonly clock: Clock
  /** For people to know. */
  readonly turned: (turn: GroupTurn) => void
  /** The verdicts on the endpoints of this group may be others now. */
  readonly changed: (group: string) => void
}

type Place = Pick<CheckedEndpoint, 'address' | 'port'>

const unasked = { up: true, isLost: false, rank: 0 }

/** Which endpoints of groups are down. */
export class GroupHealth {
  readonly #checker: HealthChecker

  constructor({ clock, turned, changed }: GroupHealthOptions) {
    this.#checker = new HealthChecker({
      clock,
      changed: ({ key, address, port }, { up, reason, host }, hasTurned) => {
        const [group = ''] = key.split(' ')
        const endpoint = joinHostPort(address, port)
        if (hasTurned) turned({ group, endpoint, host, up, reason })
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
        // Without tier and weight: where they change, checks go on.
        targets.set(key, { address, port, host, proxyProtocol, ...option, key })
      }
    this.#checker.set([...targets.values()], used)
  }

  /**
   * The verdicts on a group's endpoints. `init` and one failure keep an endpoint from being picked,
   * and cut nothing.
   */
  judge(group: CheckedGroup): (place: Place) => Verdict {
    const { name, option, effects } = group
    const { onDown, onBack, whenAllDown = usualWhenAllDown(option) } = effects
    const known = this.#known(group)
    const triesAll =
      whenAllDown === 'try' && known.every(({ isKnown, up }) => isKnown && !up)
    const ranks = known.map(({ isKnown, up, rank }) => (isKnown && up ? rank : Infinity))
    const firstRank = Math.min(...ranks)
    const byKey = new Map(known.map(one => [one.key, one]))
    return place => {
      const { up, isLost, rank } = byKey.get(keyAt(name, place)) ?? unasked
      const isBackup = onBack === 'reset' && rank > firstRank
      const isCut = onDown === 'reset' && isLost
      const cut = isCut ? 'down' : isBackup ? 'backup' : undefined
      return { isDown: !up && !triesAll, cut }
    }
  }

  /** Whether none of a group is up, and some have yet to be asked. */
  awaits(group: CheckedGroup): boolean {
    const known = this.#known(group)
    return known.every(({ up }) => !up) && known.some(({ isKnown }) => !isKnown)
  }

  #known({ name, endpoints }: CheckedGroup) {
    return endpoints.flatMap(({ tier = 0, weight, ...place }) => {
      const key = keyAt(name, place)
      const health = this.#checker.healthOf(key)
      // Those with a higher rank are for when those with a lower one fail.
      return health ? [{ ...health, key, rank: 2 * tier + (weight === 0 ? 1 : 0) }] : []
    })
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

const usualWhenAllDown = ({ check }: CheckOption): 'try' | 'refuse' =>
  asksForRole(check) ? 'refuse' : 'try'
