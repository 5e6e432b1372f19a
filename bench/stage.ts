import type { Pod } from './backends/pod.ts'
import type { HttpGenerator, LoadAnswer, LoadQuestion, Traffic } from './load/question.ts'
import { inCgroup } from './process/cgroup.ts'
import type { Child } from './process/child.ts'
import { pinProcess } from './process/pin.ts'
import type { LeftOut } from './record/record.ts'
import type { Backends, Run, Scenario, Site } from './scenarios/scenario.ts'
import { type BenchService, type StandardService, standardServices } from './services.ts'
import type { RunningTarget, Target } from './targets/target.ts'
import type { Lane, Topology } from './topology/topology.ts'

/** Beyond its window a question may take so long before it is given up. */
const patienceMs = 120_000

/** What a stage is made of; who opens it closes it. */
export interface StageParts {
  readonly topology: Topology
  readonly pods: readonly Pod[]
  readonly generator: Child
  readonly httpGenerator: HttpGenerator
  /** The endpoints of the pods as seen from a lane. */
  readonly backendsOf: (lane: Lane) => Backends
  /** Client and backends on CPU 0, proxies on CPU 1. */
  readonly pin: boolean
  /** Ends what is on its way. */
  readonly signal: AbortSignal
  /** For the files of servers that scenarios start. */
  readonly workDir: string
}

/** A target does not offer what a scenario needs: no failure, there is nothing to measure. */
export class NotOffered extends Error {
  override readonly name = 'NotOffered'
}

interface Actor {
  readonly lane: Lane
  readonly backends: Backends
  readonly running: RunningTarget
  readonly site?: Site
  /** With which services it was started. */
  readonly role: string
}

const standard = 'standard'

/** Targets on their nodes, between the generator and the backends. */
export class Stage {
  readonly #parts: StageParts
  readonly #lanes = new Map<Target, Lane>()
  readonly #actors = new Map<Target, Actor>()

  constructor(parts: StageParts) {
    this.#parts = parts
  }

  /**
   * The target, running as the scenario needs it. Rejects with the reason when it doesn't
   * come to serve.
   */
  async ready(scenario: Scenario, target: Target): Promise<RunningTarget> {
    const actor = this.#actors.get(target)
    if (actor?.role === roleOf(scenario) && !scenario.fresh) return actor.running
    await this.release(target)
    return this.start(target, scenario)
  }

  /** Ends it, and what was started for its run. */
  async release(target: Target): Promise<void> {
    const actor = this.#actors.get(target)
    this.#actors.delete(target)
    await endOf(actor)
  }

  /** Starts a target for a scenario, or with the standard services. */
  async start(
    target: Target,
    scenario: Pick<Scenario, 'name' | 'services' | 'awaited' | 'site'> = {
      name: standard,
    },
  ): Promise<RunningTarget> {
    const { topology, backendsOf, signal, pin } = this.#parts
    signal.throwIfAborted()
    const lane = this.#lanes.get(target) ?? (await topology.lane())
    this.#lanes.set(target, lane)
    const backends = backendsOf(lane)
    const site = await scenario.site?.(lane, this.#parts.workDir)
    const services =
      site?.services ?? scenario.services?.(backends) ?? allStandard(backends)
    const names = site?.awaited ?? scenario.awaited
    const awaited = names && { awaited: names }
    const { client } = topology
    const { workDir } = this.#parts
    const order = { services, ...awaited, lane, client, workDir, signal }
    const running = await target.start(order).catch(async (error: unknown) => {
      await site?.stop()
      throw error
    })
    const role = roleOf(scenario)
    this.#actors.set(target, { lane, backends, running, ...(site && { site }), role })
    if (pin) await Promise.all(running.pids().map(pid => pinProcess(pid, 1)))
    return running
  }

  /** A run against a target that is `ready`. */
  runOf(target: Target, seconds: number): Run {
    const actor = this.#actors.get(target)
    if (actor === undefined) throw new Error(`${target.name} is not running`)
    const { running, backends, site } = actor
    return {
      target,
      running,
      backends,
      ...(site && { site }),
      seconds,
      generator: this.#parts.httpGenerator,
      to: service => {
        const to = running.addressOf(service)
        if (to === undefined) throw new NotOffered(notOfferedReason(service))
        return to
      },
      load: (traffic, window = seconds) => this.#load(running, traffic, window),
    }
  }

  async #load(
    running: RunningTarget,
    traffic: Traffic,
    seconds: number,
  ): Promise<LoadAnswer> {
    const { generator, pods } = this.#parts
    const pids = { backend: pods.flatMap(pod => pod.pids()), proxy: running.pids() }
    const question: LoadQuestion = { ...traffic, seconds, pids }
    const patience = seconds * 1000 + patienceMs
    return inCgroup(
      running.cgroup,
      generator.pid,
      async () => (await generator.ask(question, patience)) as LoadAnswer,
    )
  }

  /** What targets that run have to complain of. */
  complaints(): readonly LeftOut[] {
    return [...this.#actors]
      .map(([{ name }, { running }]) => ({
        name,
        why: running.complaint(),
        failed: true as const,
      }))
      .filter(({ why }) => why !== '')
  }

  /** Ends every target. */
  async close(): Promise<void> {
    const actors = [...this.#actors.values()]
    this.#actors.clear()
    await Promise.all(actors.map(endOf))
  }
}

/** The target first: what looks after servers would tell of their end. */
const endOf = async (actor: Actor | undefined): Promise<void> => {
  await actor?.running.stop()
  await actor?.site?.stop()
}

const notOfferedReason = (service: string): string =>
  service === 'udp' ? 'it carries no UDP' : `it does not lead to ${service}`

/** What a target plays: the services that it was started with. */
const roleOf = ({
  name,
  services,
  site,
}: Pick<Scenario, 'name' | 'services' | 'site'>): string =>
  services === undefined && site === undefined ? standard : name

const allStandard = ({ endpoints }: Backends): readonly BenchService[] =>
  (Object.keys(standardServices) as StandardService[]).map(name => ({
    name,
    protocol: standardServices[name],
    endpoints: endpoints(name),
  }))
