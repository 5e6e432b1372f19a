import type { Families } from '../kernel/keeper/families.ts'
import { RuleKeeper, type RuleKeeperDeps } from '../kernel/keeper/rule-keeper.ts'
import { type KernelSettings, plainSettings } from '../kernel/proxier.ts'
import { ToolError } from '../kernel/run-tool.ts'
import type { Problem, ServicePort, Snapshot } from '../model/snapshot.ts'
import { cidrsOfFamily } from '../util/cidr.ts'
import type { Clock } from '../util/clock.ts'
import { ipFamilies, type IpFamily } from '../util/ip.ts'
import type { Capture, Placement } from './capture.ts'
import { SteeredPorts, SteeringProxier, type SteeringRules } from './steering.ts'

export interface RuleCaptureDeps extends Pick<
  RuleKeeperDeps,
  'conntrack' | 'left' | 'resync' | 'observers'
> {
  readonly clock: Clock
  readonly name: 'nftables' | 'iptables'
  /** None: a kernel mode of this process leads to the proxy ports, by its own. */
  readonly rules: ReadonlyMap<IpFamily, SteeringRules>
  readonly families: Families
  /** Gives ServicePorts their proxy ports. */
  readonly listen: Pick<Capture, 'place'>
  /**
   * Before ports are bound: makes the proxy address this host's own. `usable`: the families that are prepared.
   * Rejects when it can't be.
   */
  readonly prepare: (family: IpFamily, usable: readonly IpFamily[]) => Promise<void>
  /** The rules stand, and with them whatever of the kernel's they make it load. Never rejects. */
  readonly applied: () => Promise<void>
  /** Before the first port is bound: has clients wait that another capture's rules lead there. */
  readonly holdOthers: () => Promise<void>
  /**
   * Once new rules stand, and before they lead anybody: takes that one's rules out. What they remember of
   * clients can be forgotten then, and nothing else. Never rejects.
   */
  readonly removeOthers: (family: IpFamily) => Promise<void>
  /** The opposite of `prepare`; `keep` leaves in place what the rules need. */
  readonly release: (keep: boolean) => Promise<void>
  readonly nodePortCidrs: (family: IpFamily) => readonly string[] | undefined
  /** Of either family. */
  readonly podCidrs: () => readonly string[]
  /** As in kernel/conntrack.ts; gives why it could not be done. */
  readonly forgetWaiting: (family: IpFamily) => Promise<Error | undefined>
  /** Leave the rules when Usher ends: new clients wait for the next one. */
  readonly keepRules: boolean
  /** The earlier process's sockets are this one's: each proxy port has the Service that it had. */
  readonly hasSockets: () => boolean
  /** Something that can be done without did not work. */
  readonly failed: (what: string, reason: string) => void
}

/**
 * For how long a handshake that was under way at `hold` may take; the relay then accepts who has come.
 */
const settleMs = 200

/**
 * Leads traffic for VIPs to proxy ports by rules of the kernel's. The relay listens first,
 * then come the rules; and rules whose process has gone keep clients waiting, so that a
 * restart refuses no client.
 */
export class RuleCapture implements Capture {
  readonly #deps: RuleCaptureDeps
  readonly #proxiers: ReadonlyMap<IpFamily, SteeringProxier>
  readonly #keeper: RuleKeeper
  readonly #steered = new Map(ipFamilies.map(family => [family, new SteeredPorts()]))
  #isPrepared = false
  /** Those in which no client gets to a proxy port by what an earlier process has left. */
  readonly #mine = new Set<IpFamily>()
  /** Those that could not be prepared for the last placement. */
  #unprepared = new Map<IpFamily, Error>()

  constructor(deps: RuleCaptureDeps) {
    this.#deps = deps
    this.#proxiers = new Map(
      Array.from(deps.rules, ([family, rules]) => [
        family,
        new SteeringProxier(rules, {
          removeOthers: () => deps.removeOthers(family),
          forgetWaiting: () => this.#forgetWaiting(family),
        }),
      ]),
    )
    this.#keeper = new RuleKeeper({ ...deps, proxiers: this.#proxiers })
  }

  async place(servicePorts: readonly ServicePort[]): Promise<readonly Placement[]> {
    const { families, listen } = this.#deps
    const wanted = new Set(servicePorts.map(({ family }) => family))
    const usable = ipFamilies.filter(family => families.problemOf(family) === '')
    this.#unprepared.clear()
    for (const family of usable) await this.#prepare(family, usable)
    const [error] = [...this.#unprepared.values()]
    const works = usable.filter(family => !this.#unprepared.has(family))
    // None works: that is a failure, and not only a problem. It is tried again by the next sync.
    if (error !== undefined && !works.some(family => wanted.has(family))) throw error
    for (const [family, { message }] of this.#unprepared) families.lost(family, message)
    const { IPv4, IPv6 } = families.want(wanted)
    this.#unprepared.clear()
    if (wanted.size > 0 && IPv4 !== '' && IPv6 !== '')
      throw new ToolError(wanted.has('IPv4') ? IPv4 : IPv6, 'failed', '')
    return listen.place(servicePorts)
  }

  async steer(
    placements: readonly Placement[],
    snapshots: readonly Snapshot[],
  ): Promise<void> {
    const families = [...this.#mine].filter(family => this.#proxiers.has(family))
    await this.#keeper.sync(
      await Promise.all(
        families.map(async family => ({
          snapshot: await this.#snapshot(family, placements, snapshots),
          settings: this.#settings(family),
        })),
      ),
    )
    await this.#deps.applied()
  }

  problems(): readonly Problem[] {
    const object = `capture ${this.#deps.name}`
    const failed = Array.from(this.#unprepared, ([field, { message }]) => ({
      object,
      field,
      message,
    }))
    return [...this.#deps.families.problems, ...failed, ...this.#keeper.problems(object)]
  }

  async hold(): Promise<void> {
    this.#deps.families.stop()
    this.#keeper.stop()
    const installed = [...this.#proxiers.values()].filter(each => each.isInstalled)
    if (installed.length === 0) return
    const held = await Promise.allSettled(installed.map(each => each.hold()))
    // Rules that are broken by then must not cost the connections that are to be drained.
    for (const one of held)
      if (one.status === 'rejected')
        this.#failed('keeping new clients waiting', one.reason as Error)
    await this.#sleep(settleMs)
  }

  async close(): Promise<void> {
    const { families, keepRules, release } = this.#deps
    families.stop()
    this.#keeper.stop()
    // Rules that stay need what they lead to: without it clients' packets would leave the node.
    let stay = true
    try {
      if (!keepRules)
        await Promise.all(Array.from(this.#proxiers.values(), each => each.remove()))
      stay = keepRules
    } finally {
      if (this.#isPrepared) await release(stay)
      this.#isPrepared = false
    }
  }

  async #prepare(family: IpFamily, usable: readonly IpFamily[]): Promise<void> {
    const { holdOthers, prepare } = this.#deps
    try {
      await prepare(family, usable)
      const mayLead = this.#deps.hasSockets()
      if (!this.#isPrepared && !mayLead) await holdOthers()
      this.#isPrepared = true
      if (this.#mine.has(family)) return
      if (mayLead) {
        this.#mine.add(family)
        return
      }
      const proxier = this.#proxiers.get(family)
      await (proxier === undefined ? this.#forgetWaiting(family) : proxier.takeOver())
      this.#mine.add(family)
    } catch (error) {
      this.#unprepared.set(family, error as Error)
    }
  }

  async #forgetWaiting(family: IpFamily): Promise<void> {
    const failure = await this.#deps.forgetWaiting(family)
    if (failure !== undefined)
      this.#failed('ending flows to the proxy ports of an earlier Usher', failure)
  }

  #failed(what: string, { message }: Error): void {
    this.#deps.failed(what, message)
  }

  async #snapshot(
    family: IpFamily,
    placements: readonly Placement[],
    snapshots: readonly Snapshot[],
  ): Promise<Snapshot> {
    const own = placements.filter(({ servicePort }) => servicePort.family === family)
    const steered = (await this.#steered.get(family)?.of(own)) ?? []
    const { healthChecks = new Map() } =
      snapshots.find(one => one.family === family) ?? {}
    const servicePorts = new Map(steered.map(one => [one.key, one]))
    return { family, servicePorts, healthChecks }
  }

  #settings(family: IpFamily): KernelSettings {
    const { nodePortCidrs, podCidrs } = this.#deps
    const nodePods = cidrsOfFamily(podCidrs(), family)
    return {
      ...plainSettings,
      nodePortCidrs: nodePortCidrs(family),
      relay: { serves: 'alone', nodePods },
    }
  }

  #sleep(ms: number): Promise<void> {
    return new Promise(resolve => void this.#deps.clock.setTimeout(resolve, ms))
  }
}
