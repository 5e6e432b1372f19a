import { startPod } from './backends/pod.ts'
import { backendsOf } from './backends/backends-of.ts'
import type { Here } from './measure-here.ts'
import { startChild } from './process/child.ts'
import { pinProcess } from './process/pin.ts'
import { Stage } from './stage.ts'
import type { Backends } from './scenarios/scenario.ts'
import type { Endpoint } from './services.ts'
import type { Tools } from './tools.ts'
import { generatorProgram } from './load/program.ts'
import { join } from 'node:path'

/** How what was opened is ended, in the order of opening. */
export type Closers = (() => Promise<unknown>)[]

/** Starts the generator and the backends, between which targets are put. */
export const openStage = async (
  { options, topology, workDirectory }: Here,
  tools: Tools,
  signal: AbortSignal,
  closers: Closers,
): Promise<Stage> => {
  const generator = startChild(generatorProgram, topology.client.enter)
  closers.push(() => generator.stop())
  const pods = await Promise.all(
    topology.pods.map(async (place, i) => {
      const workDir = join(workDirectory, `pod-${i + 1}`)
      const pod = await startPod(place, { http: tools.backend, workDir })
      closers.push(() => pod.stop())
      return pod
    }),
  )
  if (options.pin)
    for (const pid of [generator.pid, ...pods.flatMap(pod => pod.pids())])
      await pinProcess(pid, 0)
  const stage = new Stage({
    ...{ topology, pods, generator, pin: options.pin, signal },
    httpGenerator: tools.generator,
    backendsOf: lane => withGiven(backendsOf(pods, lane), options.backend),
  })
  closers.push(() => stage.close())
  return stage
}

/** Servers that somebody gave, in place of the bench's own. */
const withGiven = (backends: Backends, http: readonly Endpoint[]): Backends =>
  http.length === 0
    ? backends
    : {
        ...backends,
        endpoints: service => (service === 'http' ? http : backends.endpoints(service)),
      }
