import { performance } from 'node:perf_hooks'
import type { Capture } from '../../src/capture/capture.ts'
import type { ServicePort } from '../../src/model/snapshot.ts'
import { spreadOf } from '../statistics.ts'
import { type Measured, measuredCaptures } from './captures.ts'
import { type Namespace, openNamespace } from './namespace.ts'

/** Milliseconds, and how many tools were run. */
export interface Cost {
  readonly ms: number
  readonly tools: number
}

export interface RuleFigures {
  readonly capture: string
  readonly vips: number
  /** Undefined when it could not be measured, for `reason`. */
  readonly first?: Cost
  readonly added?: Cost
  readonly removed?: Cost
  /** The same wanted state once more. */
  readonly unchanged?: Cost
  /** One endpoint came to one Service. */
  readonly endpoint?: Cost
  readonly reason: string
}

/** How often a single change is measured; the median counts. */
const repetitions = 5

/** From wanted state to rules in the kernel, in a network namespace of the bench's own. */
export const measureRules = async (
  counts: readonly number[],
  say: (what: string) => void,
): Promise<readonly RuleFigures[]> => {
  const figures: RuleFigures[] = []
  for (const vips of counts) {
    for (const measured of measuredCaptures) {
      say(`rules: ${measured.name}, ${vips} VIPs`)
      figures.push(await measureOne(measured, vips))
    }
  }
  return figures
}

const measureOne = async (measured: Measured, vips: number): Promise<RuleFigures> => {
  const title = { capture: measured.name, vips }
  let namespace: Namespace | undefined
  try {
    namespace = await openNamespace()
    return { ...title, ...(await costs(measured, namespace, vips)), reason: '' }
  } catch (error) {
    return { ...title, reason: (error as Error).message }
  } finally {
    await namespace?.close()
  }
}

type Costs = Omit<RuleFigures, 'capture' | 'vips' | 'reason'>

const costs = async (
  { make }: Measured,
  { run, takeCount }: Namespace,
  vips: number,
): Promise<Costs> => {
  const capture = make(run)
  const all = Array.from({ length: vips }, (_, i) => clusterService(i))
  const more = [...all, clusterService(vips)]
  const sync = async (servicePorts: readonly ServicePort[]): Promise<Cost> => {
    takeCount()
    const started = performance.now()
    await syncTo(capture, servicePorts)
    return { ms: performance.now() - started, tools: takeCount() }
  }
  const first = await sync(all)
  const [added, removed]: [Cost[], Cost[]] = [[], []]
  for (let i = 0; i < repetitions; i += 1) {
    added.push(await sync(more))
    removed.push(await sync(all))
  }
  const unchanged = await sync(all)
  const [one, ...rest] = all
  const endpoint = one && (await sync([{ ...one, affinityMs: 1 }, ...rest]))
  await capture.close()
  return {
    first,
    added: middle(added),
    removed: middle(removed),
    unchanged,
    ...(endpoint && { endpoint }),
  }
}

const syncTo = async (
  capture: Capture,
  servicePorts: readonly ServicePort[],
): Promise<void> => {
  await capture.steer(await capture.place(servicePorts), [])
}

const middle = (all: readonly Cost[]): Cost => ({
  ms: spreadOf(all.map(({ ms }) => ms))?.median ?? Number.NaN,
  tools: spreadOf(all.map(({ tools }) => tools))?.median ?? Number.NaN,
})

/** A Service with one ClusterIP, as snapshots have it. */
const clusterService = (i: number): ServicePort => {
  const address = `10.${96 + Math.floor(i / 65_536)}.${Math.floor(i / 256) % 256}.${i % 256}`
  const target = { verdict: 'forward', endpoints: [] } as const
  return {
    key: `bench/s${i}/TCP`,
    name: `bench/s${i}`,
    namespace: 'bench',
    serviceName: `s${i}`,
    portName: '',
    protocol: 'TCP',
    family: 'IPv4',
    vips: [{ kind: 'ClusterIP', address, port: 80 }],
    affinityMs: 0,
    endpoints: [],
    internal: target,
    external: target,
    externalFromNode: target,
    reachable: [],
    sourceRanges: undefined,
  }
}
