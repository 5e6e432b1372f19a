import { join } from 'node:path'
import { backendsOf } from './backends/backends-of.ts'
import { type Pod, startPod } from './backends/pod.ts'
import type { Interruption } from './interruption.ts'
import { generatorProgram } from './load/question.ts'
import type { Setup } from './setup.ts'
import { type Child, startChild } from './process/child.ts'
import { pinProcess } from './process/pin.ts'
import { isThere } from './process/signals.ts'
import type { Backends } from './scenarios/scenario.ts'
import type { Endpoint } from './services.ts'
import { Stage } from './stage.ts'
import type { Tools } from './tools.ts'

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
