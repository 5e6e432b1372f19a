import { join } from 'node:path'
import { backendsOf, type Pod, startPod } from './backends/pod.ts'
import {
  generatorProgram,
  type HttpGenerator,
  type LoadAnswer,
  type LoadQuestion,
  type Traffic,
} from './load/question.ts'
import { inCgroup } from './process/cgroup.ts'
import { type Child, startChild } from './process/child.ts'
import { endingSignals, isThere, pinProcess } from './process/signals.ts'
import type { LeftOut } from './record/record.ts'
import type { Backends, Run, Scenario, Site } from './scenarios/scenario.ts'
import {
  type BenchService,
  type Endpoint,
  type StandardService,
  standardServices,
} from './services.ts'
import type { Setup } from './setup.ts'
import type { RunningTarget, Target } from './targets/target.ts'
import type { Tools } from './tools.ts'
import type { Lane, Topology } from './topology/topology.ts'

/** That the bench was asked to end, or can't go on. */
export interface Interruption {
  /** Aborted by the first signal: measuring ends, and what there is is reported. */
  readonly signal: AbortSignal
  /** Why it can't go on; '' when it was asked to end, or goes on. */
  readonly why: () => string
  /** Ends measuring because something that it needs is gone; `why` in words. */
  readonly giveUp: (why: string) => void
  /** Signals do again what they did before. */
  readonly stop: () => void
}

/**
 * A second signal ends the process at once, with code 130. A reader that goes away
 * (`usher bench | head -1`; `gone`) or a terminal that is closed ask it to end, too.
 */
export const listenForInterruption = (gone: AbortSignal): Interruption => {
  const interrupt = new AbortController()
  const signal = AbortSignal.any([interrupt.signal, gone])
  let reason = ''
  const onSignal = (): void => {
    if (signal.aborted) process.exit(130)
    interrupt.abort()
  }
  for (const name of endingSignals) process.on(name, onSignal)
  return {
    signal,
    why: () => reason,
    giveUp: why => {
      if (signal.aborted) return
      reason = why
      interrupt.abort()
    },
    stop: () => {
      for (const name of endingSignals) process.off(name, onSignal)
    },
  }
}

/** Beyond its window a question may take so long before it is given up. */
const patienceMs = 120_000

/** What a stage is made of; who opens it closes it. */
interface StageParts {
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
    scenario: Pick<Scenario, 'name' | 'services' | 'awaited' | 'site' | 'replaces'> = {
      name: standard,
    },
  ): Promise<RunningTarget> {
    const { topology, signal, pin } = this.#parts
    signal.throwIfAborted()
    const lane = this.#lanes.get(target) ?? (await topology.lane())
    this.#lanes.set(target, lane)
    const backends = this.#parts.backendsOf(lane)
    const site = await scenario.site?.(lane, this.#parts.workDir)
    const services =
      site?.services ?? scenario.services?.(backends) ?? allStandard(backends)
    const names = site?.awaited ?? scenario.awaited
    const awaited = names && { awaited: names }
    const { client } = topology
    const { workDir } = this.#parts
    const replaced = scenario.replaces && ({ isToBeReplaced: true } as const)
    const order = { services, ...awaited, ...replaced, lane, client, workDir, signal }
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

/** How what was opened is ended, in the order of opening. */
export type Closers = (() => Promise<unknown>)[]

/** Starts the generator and the backends, between which targets are put. */
export const openStage = async (
  { options, topology, workDirectory }: Setup,
  tools: Tools,
  interruption: Interruption,
  closers: Closers,
): Promise<Stage> => {
  const { signal } = interruption
  const generator = startChild(generatorProgram, topology.client.enter)
  closers.push(() => generator.stop())
  const starts = topology.pods.map(async (place, i) => {
    const workDir = join(workDirectory, `pod-${i + 1}`)
    const pod = await startPod(place, { http: tools.backend, workDir })
    closers.push(() => pod.stop())
    return pod
  })
  // Not ended before all of them can be.
  await Promise.allSettled(starts)
  const pods = await Promise.all(starts)
  if (options.pin)
    for (const pid of [generator.pid, ...pods.flatMap(pod => pod.pids())])
      await pinProcess(pid, 0)
  const stage = new Stage({
    topology,
    pods,
    pin: options.pin,
    signal,
    workDir: workDirectory,
    generator: watched(generator, pods, interruption),
    httpGenerator: tools.generator,
    backendsOf: lane => withGiven(backendsOf(pods, lane), options.backend),
  })
  closers.push(() => stage.close())
  return stage
}

/**
 * Asks the generator until the bench is interrupted; gives up when it or a
 * backend has ended, because every figure from then on would be of that.
 */
const watched = (
  generator: Child,
  pods: readonly Pod[],
  { signal, giveUp }: Interruption,
): Child => {
  const parts = pods.map(pod => pod.pids())
  const interrupted = rejectsOnAbort(signal)
  const checkParts = (): void => {
    if (generator.hasEnded()) giveUp('the load generator has ended')
    pods.forEach((pod, i) => {
      const now = new Set(pod.pids())
      if (!(parts[i] ?? []).every(pid => now.has(pid) && isThere(pid)))
        giveUp(`a process of backend pod ${i + 1} has ended`)
    })
    signal.throwIfAborted()
  }
  return {
    ...generator,
    ask: async (question, timeoutMs) => {
      checkParts()
      try {
        return await Promise.race([generator.ask(question, timeoutMs), interrupted])
      } finally {
        checkParts()
      }
    },
  }
}

const rejectsOnAbort = (signal: AbortSignal): Promise<never> => {
  const interrupted = new Promise<never>((_, reject) => {
    const fail = (): void => reject(new Error('interrupted'))
    if (signal.aborted) fail()
    else signal.addEventListener('abort', fail, { once: true })
  })
  // It is a failure only to those who wait for an answer.
  interrupted.catch(() => undefined)
  return interrupted
}

/** Servers of `--backend`, in place of the bench's own. */
const withGiven = (backends: Backends, http: readonly Endpoint[]): Backends =>
  http.length === 0
    ? backends
    : {
        ...backends,
        endpoints: service => (service === 'http' ? http : backends.endpoints(service)),
      }
