import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Load } from './load.ts'
import type { LoadAnswer, Pids } from './question.ts'
import { present } from './timings.ts'
import { machineBusySeconds, readUsage } from '../process/usage.ts'
import type { Cores } from '../record/record.ts'

/** For connections to be made and queues to fill before the window opens. */
export const settleMs = 200

/** What was used between two moments. */
export type Watched = Pick<
  LoadAnswer,
  'seconds' | 'cores' | 'proxyCpuSeconds' | 'allCpuSeconds'
>

/** Reads the CPU times from now on; the function returned tells what came of it. */
export const watchCpu = (pids: Pids): (() => Watched) => {
  const before = snapshot(pids)
  return () => {
    const after = snapshot(pids)
    const seconds = (after.at - before.at) / 1000
    const generator = after.generator - before.generator
    const each = after.backends.map((cpu, index) =>
      difference(cpu, before.backends[index]),
    )
    const backend = sumOf(each)
    const proxy = difference(after.proxy, before.proxy)
    const machine = after.machine - before.machine
    const others = othersOf(machine, [generator, backend, proxy])
    const perSecond = (cpu: number | undefined): number | undefined =>
      cpu === undefined ? undefined : cpu / seconds
    const cores: Cores = present({
      generator: generator / seconds,
      backend: pids.backend.length === 0 ? undefined : perSecond(backend),
      busiestBackend: each.length === 0 ? undefined : perSecond(mostOf(each)),
      proxy: pids.proxy.length === 0 ? undefined : perSecond(proxy),
      others: perSecond(others),
    })
    return {
      seconds,
      cores,
      ...(pids.proxy.length > 0 && present({ proxyCpuSeconds: proxy })),
      ...present({ allCpuSeconds: sumOf([generator, backend, proxy]) }),
    }
  }
}

/**
 * Counts what a load gets done in a window of `seconds`, then stops it. Counters and CPU
 * times are read in the generator itself, so that they are of the same instant.
 */
export const measureLoad = async (
  load: Load,
  seconds: number,
  pids: Pids,
): Promise<LoadAnswer> => {
  try {
    // Opened first: what is poured as soon as it can be would come before it.
    if (load.isFromTheFirst === true) load.openWindow?.()
    await load.ready?.()
    if (load.isFromTheFirst !== true) {
      await sleep(settleMs)
      load.openWindow?.()
    }
    const before = load.done()
    const watch = watchCpu(pids)
    await sleep(seconds * 1000)
    const done = load.done() - before
    const watched = watch()
    await load.closeWindow?.()
    const found = { done, ...load.findings?.() }
    return { ...watched, ...withoutNeedlessTried(found), errors: load.errors.counts }
  } finally {
    await load.stop()
  }
}

/** `tried` is given only where not all of them were done. */
const withoutNeedlessTried = <T extends Pick<LoadAnswer, 'done' | 'tried'>>(
  found: T,
): Omit<T, 'tried'> & Pick<LoadAnswer, 'tried'> => {
  const { tried, ...others } = found
  return tried === undefined || tried <= found.done ? others : { ...others, tried }
}

const snapshot = (pids: Pids) => ({
  at: performance.now(),
  machine: machineBusySeconds(),
  generator: ownCpuSeconds(),
  backends: pids.backend.map(pid => readUsage([pid])?.cpuSeconds),
  proxy: readUsage(pids.proxy)?.cpuSeconds,
})

/** Of this process with its threads and the children that have ended, such as wrk(1). */
const ownCpuSeconds = (): number => {
  const usage = readUsage([process.pid])
  if (usage !== undefined) return usage.cpuSeconds
  const { user, system } = process.cpuUsage()
  return (user + system) / 1e6
}

const difference = (after: number | undefined, before: number | undefined) =>
  after === undefined || before === undefined ? undefined : after - before

/** Undefined when one of them is. */
const sumOf = (values: readonly (number | undefined)[]): number | undefined =>
  values.reduce<number | undefined>(
    (sum, value) => (sum === undefined || value === undefined ? undefined : sum + value),
    0,
  )

const mostOf = (values: readonly (number | undefined)[]): number | undefined =>
  sumOf(values) === undefined ? undefined : Math.max(...values.map(value => value ?? 0))

/** Undefined when the share of one of ours is not known. */
const othersOf = (
  machine: number,
  ours: readonly (number | undefined)[],
): number | undefined => {
  let left = machine
  for (const share of ours) {
    if (share === undefined) return undefined
    left -= share
  }
  return Math.max(0, left)
}
