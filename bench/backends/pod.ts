import { join } from 'node:path'
import { benchProgram, startChild } from '../process/child.ts'
import { processTree } from '../process/usage.ts'
import type { PodPorts } from '../services.ts'
import type { Place } from '../topology/topology.ts'
import type { PodAnswer, PodQuestion } from './main.ts'
import { type HttpServer, startHttpNginx } from './nginx.ts'

/**
 * glibc gives memory back to the kernel whenever some is free, and a sink that reads as fast
 * as it can spends half of its time on getting it again (mallopt(3)). Others ignore it.
 */
const keepingMemory = [
  'env',
  'MALLOC_TRIM_THRESHOLD_=268435456',
  'MALLOC_MMAP_THRESHOLD_=268435456',
] as const

const startsWithinMs = 30_000

/** A backend pod that serves. */
export interface Pod {
  readonly ports: PodPorts
  /** Takes no connection and does not refuse either. */
  readonly silentPort: number
  /** Ports that were tried and refuse connections. */
  readonly closedPorts: readonly number[]
  /** All of its processes, those of nginx too. */
  pids(): readonly number[]
  stop(): Promise<void>
}

export interface PodOptions {
  /** `own` where nginx isn't installed. */
  readonly http: 'nginx' | 'own'
  /** A directory of this pod's own; made when nginx needs it. */
  readonly workDir: string
}

/** Starts the backends of one pod. Rejects with the reason when they don't serve. */
export const startPod = async (place: Place, options: PodOptions): Promise<Pod> => {
  const child = startChild(benchProgram('backends/main'), [
    ...place.enter,
    ...keepingMemory,
  ])
  let nginx: HttpServer | undefined
  try {
    const question: PodQuestion = {
      listenAddress: place.listenAddress,
      http: options.http === 'own',
    }
    const answer = (await child.ask(question, startsWithinMs)) as PodAnswer
    if (options.http === 'nginx')
      nginx = await startHttpNginx(place, join(options.workDir, 'nginx'))
    const { source, sink, udp, silent, closed } = answer
    return {
      ports: { http: nginx?.port ?? answer.http, source, sink, udp },
      silentPort: silent,
      closedPorts: closed,
      pids: () => [
        ...processTree(child.pid),
        ...(nginx === undefined ? [] : nginx.process.pids()),
      ],
      stop: async () => {
        await Promise.all([child.stop(), nginx?.process.stop()])
      },
    }
  } catch (error) {
    await child.stop()
    throw error
  }
}
