import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { machineCpuSeconds, readUsage } from '../process/usage.ts'
import type { Load } from './load.ts'

/** The processes whose CPU time is read; `proxy` is missing for the direct path. */
export interface Pids {
  readonly generator: number
  readonly backend: number
  readonly proxy?: number
}

/**
 * CPU seconds by process, and of all `others` on the machine: figures taken while those
 * were busy are worth little. Undefined where the system doesn't tell.
 */
export type CpuSeconds = Readonly<Record<keyof Pids | 'others', number | undefined>>

export interface Measured {
  /** What came back within the window, and how long the window was. */
  readonly done: number
  readonly seconds: number
  /** CPU time used within the window. */
  readonly cpu: CpuSeconds
  /** Errors of the whole run, its start included. */
  readonly errors: Readonly<Record<string, number>>
}

/** For connections to be made and queues to fill before the window opens. */
const settleMs = 200

/**
 * Counts what a load gets done in a window of `seconds`, then stops it. Counters and
 * CPU times are read in the generator itself, so that they are of the same instant.
 */
export const measureLoad = async (
  load: Load,
  seconds: number,
  pids: Pids,
): Promise<Measured> => {
  await sleep(settleMs)
  const before = look(load, pids)
  await sleep(seconds * 1000)
  const after = look(load, pids)
  load.stop()
  const cpu = {
    generator: difference(after.generator, before.generator),
    backend: difference(after.backend, before.backend),
    proxy: difference(after.proxy, before.proxy),
  }
  return {
    done: after.done - before.done,
    seconds: (after.at - before.at) / 1000,
    cpu: { ...cpu, others: othersOf(after.machine - before.machine, cpu) },
    errors: load.errors,
  }
}

const look = (load: Load, pids: Pids) => ({
  done: load.done(),
  at: performance.now(),
  machine: machineCpuSeconds(),
  generator: cpuOf(pids.generator),
  backend: cpuOf(pids.backend),
  proxy: cpuOf(pids.proxy),
})

const cpuOf = (pid: number | undefined): number | undefined =>
  pid === undefined ? undefined : readUsage(pid)?.cpuSeconds

const difference = (after: number | undefined, before: number | undefined) =>
  after === undefined || before === undefined ? undefined : after - before

const othersOf = (
  machine: number,
  { generator, backend, proxy = 0 }: Omit<CpuSeconds, 'others'>,
): number | undefined =>
  generator === undefined || backend === undefined
    ? undefined
    : Math.max(0, machine - generator - backend - proxy)
