import { performance } from 'node:perf_hooks'
import type { Capture } from '../../src/capture/capture.ts'
import type { ServicePort } from '../../src/model/snapshot.ts'
import { type Measured, measuredCaptures } from './captures.ts'
import { type Namespace, openNamespace } from './namespace.ts'

/** Milliseconds, and how many tools were run. */
export interface Cost {
  readonly ms: number
  readonly tools: number
}

/** What is done to a capture, one after the other; `unchanged` is the same once more. */
export const steps = ['first', 'added', 'removed', 'unchanged', 'endpoint'] as const

export type Step = (typeof steps)[number]

/** Of each step as often as it was made. */
export type Costs = Readonly<Record<Step, readonly Cost[]>>

export interface RuleFigures {
  readonly capture: string
  /** Missing when it could not be measured, for `reason`. */
  readonly costs?: Costs
  readonly reason: string
}

/** How often a single change is measured; the median counts. */
const repetitions = 5

/**
 * From wanted state to rules in the kernel, in a network namespace of the bench's own; all
 * captures by turns. Ends early, with what there is, on `signal`.
 */
export const measureRules = async (
  vips: number,
  say: (what: string) => void,
  signal: AbortSignal,
): Promise<readonly RuleFigures[]> => {
  const figures: RuleFigures[] = []
  for (const measured of measuredCaptures) {
    if (signal.aborted) break
    say(`rules: ${measured.name}, ${vips} VIPs`)
    const found = await measureOne(measured, vips)
    // A tool that Ctrl-C ended is no reason.
    if (signal.aborted) break
    figures.push(found)
  }
  return figures
}

const measureOne = async (measured: Measured, vips: number): Promise<RuleFigures> => {
  const capture = measured.name
  let namespace: Namespace | undefined
  try {
    namespace = await openNamespace()
    return { capture, costs: await costsOf(measured, namespace, vips), reason: '' }
  } catch (error) {
    return { capture, reason: error instanceof Error ? error.message : String(error) }
  } finally {
    await namespace?.close()
  }
}

const costsOf = async (
  { make }: Measured,
  { run, takeCount }: Namespace,
  vips: number,
): Promise<Costs> => {
  const capture = make(run)
  const all = Array.from({ length: vips }, (_, i) => clusterService(i))
  const more = [...all, clusterService(vips)]
  const [one, ...rest] = all
  const changed = one === undefined ? all : [{ ...one, affinityMs: 1 }, ...rest]
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
  const endpoint = await sync(changed)
  await capture.close()
  return {
    first: [first],
    added,
    removed,
    unchanged: [unchanged],
    endpoint: [endpoint],
  }
}

const syncTo = async (
  capture: Capture,
  servicePorts: readonly ServicePort[],
): Promise<void> => {
  await capture.steer(await capture.place(servicePorts), [])
}

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
    internalTrafficPolicy: 'Cluster',
    externalTrafficPolicy: 'Cluster',
    internal: target,
    external: target,
    externalFromNode: target,
    reachable: [],
    sourceRanges: undefined,
  }
}
