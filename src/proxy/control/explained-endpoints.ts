import { schedulerOf } from '../../kernel/ipvs/ipvs-deps.ts'
import type { Endpoint, ServicePort } from '../../model/snapshot.ts'
import { whyLeftOut } from '../../model/topology.ts'
import type { AnswerOf } from '../../observe/control-protocol.ts'
import { bindText, timesOf } from '../../observe/status-service-port.ts'
import type { EndpointView, Explanation, WorkerView } from '../../relay/explanation.ts'
import type { ControlDeps } from './carry-out.ts'
import type { DialledVip } from './dialled-vip.ts'
import type { ClientTarget } from './client-target.ts'

type Explained = AnswerOf<'explain'>['endpoints'][number]

interface Views {
  readonly explanation: Explanation | undefined
  readonly coming: readonly WorkerView[]
}

/**
 * Each endpoint, with why such a client does not get it. `explanation`: the relay's, undefined where the
 * kernel draws; `coming`: of the workers that the client may come to. `at`: the time so many
 * milliseconds from now.
 */
export const explainedEndpoints = (
  deps: ControlDeps,
  { servicePort }: DialledVip,
  { target, policy }: ClientTarget,
  { explanation, coming }: Views,
  at: (ms: number) => string,
): readonly Explained[] => {
  const { around, orders } = deps
  const left = whyLeftOut(servicePort.endpoints, policy, around.place())
  const ofTarget = new Set(target.endpoints)
  const workers = explanation?.workers ?? []
  // Those that a client can't come to know as much of most things.
  const [of] = coming.length > 0 ? coming : workers
  const views = new Map(of?.endpoints.map(one => [one.key, one]))
  const failures = lastFailures(workers)
  const next = new Set(coming.flatMap(({ candidates }) => candidates))
  const isEven = explanation === undefined && drawsEvenly(deps, servicePort)
  const most = servicePort.capacity?.maxConnections ?? null
  const reasonOf = (endpoint: Endpoint, seen: EndpointView | undefined): string => {
    if (!ofTarget.has(endpoint)) return left.get(endpoint) ?? 'not listed'
    if (explanation === undefined) return ''
    if (of === undefined) return 'not known'
    return seen === undefined ? 'not listed' : seen.against
  }
  return servicePort.endpoints.map(endpoint => {
    const key = bindText(endpoint)
    const seen = views.get(key)
    const reason = reasonOf(endpoint, seen)
    const drain = orders.get('drain', servicePort.name, key)
    const failure = failures.get(key)
    const check = around.checkOf(servicePort, key)
    return {
      endpoint: key,
      serves: reason === '',
      next: next.has(key),
      reason,
      node: endpoint.nodeName,
      zone: endpoint.zone,
      tier: seen?.tier ?? endpoint.tier ?? 0,
      weight: seen?.weight ?? endpoint.weight ?? 1,
      chance: isEven && reason === '' ? 1 / ofTarget.size : null,
      restsUntil: seen !== undefined && seen.restMs > 0 ? at(seen.restMs) : null,
      tried: seen?.isProbed ?? false,
      failures: seen?.failures ?? 0,
      failure: failure ? { why: failure.why, at: at(-failure.agoMs) } : null,
      connections: seen?.connections ?? 0,
      mostConnections: most,
      drained: drain ? timesOf(drain) : null,
      check: check === undefined ? null : check.why,
    }
  })
}

/** Whether the kernel gives each endpoint as many of its clients as another. */
const drawsEvenly = (
  { mode, options }: ControlDeps,
  { affinityMs }: ServicePort,
): boolean => {
  if (affinityMs > 0) return false
  const { ipvs } = options.kernel ?? {}
  return mode.name !== 'ipvs' || ipvs === undefined || schedulerOf(ipvs) === 'rr'
}

type Failure = NonNullable<EndpointView['lastFailure']>

/** By endpoint, the last one in any worker. */
const lastFailures = (workers: readonly WorkerView[]): ReadonlyMap<string, Failure> => {
  const failures = new Map<string, Failure>()
  for (const { key, lastFailure } of workers.flatMap(({ endpoints }) => endpoints)) {
    const known = failures.get(key)
    if (lastFailure !== undefined && lastFailure.agoMs < (known?.agoMs ?? Infinity))
      failures.set(key, lastFailure)
  }
  return failures
}
