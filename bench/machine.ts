import { availableParallelism, cpus, release, totalmem, type } from 'node:os'

export interface Machine {
  readonly cpus: number
  readonly model: string
  readonly kernel: string
  readonly node: string
  readonly memoryBytes: number
}

/** What figures depend on. */
export const describeMachine = (): Machine => ({
  cpus: availableParallelism(),
  model: cpus()[0]?.model ?? 'unknown',
  kernel: `${type()} ${release()}`,
  node: process.version,
  memoryBytes: totalmem(),
})
