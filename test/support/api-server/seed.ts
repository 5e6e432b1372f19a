import { endpoint, serviceObject, sliceObject } from './builders.ts'
import type { KubeObject } from './kube-object.ts'

/** How many objects a big cluster has. */
export interface SeedOptions {
  readonly services: number
  readonly endpointsPerSlice: number
}

const nodes = 100
const zones = ['zone-a', 'zone-b', 'zone-c']

/** The name of the n-th Service, counted from 0. */
const seedName = (n: number): string => `service-${String(n).padStart(5, '0')}`

/** The Services and slices of a big cluster; slice n belongs to Service n. */
export const seedObjects = function* (options: SeedOptions): Generator<KubeObject> {
  for (let n = 0; n < options.services; n += 1) {
    yield seedService(n)
    yield seedSlice(n, options.endpointsPerSlice, 0)
  }
}

const seedService = (n: number): KubeObject => {
  const name = seedName(n)
  return serviceObject(name, `10.96.${n >> 8}.${n & 255}`, {
    namespace: 'scale',
    labels: { 'app.kubernetes.io/name': name, 'app.kubernetes.io/part-of': 'scale' },
    annotations: { 'example.com/owner': 'the tests' },
  })
}

/**
 * The n-th slice. `turn` moves its last endpoint to another address, as a Pod that was
 * replaced does; `triggeredAt` (Unix milliseconds) says when that Pod changed.
 */
export const seedSlice = (
  n: number,
  endpoints: number,
  turn: number,
  triggeredAt?: number,
): KubeObject => {
  const all = Array.from({ length: endpoints }, (_, i) =>
    endpoint(addressOf(n, i === endpoints - 1 ? i + turn : i), {
      nodeName: `node-${(n + i) % nodes}`,
      zone: zones[(n + i) % zones.length] ?? '',
    }),
  )
  const name = seedName(n)
  return sliceObject(name, `${name}-slice`, all, {
    namespace: 'scale',
    labels: { 'app.kubernetes.io/name': name },
    annotations:
      triggeredAt === undefined
        ? {}
        : {
            'endpoints.kubernetes.io/last-change-trigger-time': preciseTime(triggeredAt),
          },
  })
}

/** RFC 3339 with microseconds; Date alone would round to milliseconds. */
export const preciseTime = (unixMs: number): string => {
  const micros = Math.round(unixMs * 1000)
  const date = new Date(Math.floor(micros / 1000)).toISOString()
  return `${date.slice(0, -1)}${String(micros % 1000).padStart(3, '0')}Z`
}

/** Of 10.128.0.0/9: nothing that anybody dials. */
const addressOf = (n: number, i: number): string => {
  const number = n * 64 + (i % 64)
  return `10.${128 + ((number >> 16) & 127)}.${(number >> 8) & 255}.${number & 255}`
}
