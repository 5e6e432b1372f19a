import { backendAddresses } from './addresses.ts'
import { type Cluster, type Member, nodeOf, zoneOf, zones } from './cluster.ts'
import type { Random } from './random.ts'
import { brokenMark, isBroken, labels, type RawEndpoint, type RawSlice } from './raw.ts'
import { type Change, changeable, type Done } from './service-changes.ts'

/** Other endpoints, spread over one to three slices. */
export const scale: Change = (cluster, random) =>
  withService(cluster, random, service => {
    const count = random.between(0, 5)
    scaleTo(cluster, random, service, count)
    return `scale to ${count}`
  })

/** Gives a Service `count` endpoints that are ready. */
export const scaleTo = (
  cluster: Cluster,
  random: Random,
  service: string,
  count: number,
  hints = random.chance(0.3),
): void => {
  const backends = random.some([...backendAddresses.keys()], count)
  const members = backends.map(at => member(at, hints))
  const slices = random.between(1, 3)
  const names = Array.from({ length: slices }, (_, i) => `${service}-${i}`)
  const groups = names.map((_, i) => members.filter((__, j) => j % slices === i))
  for (const [i, name] of names.entries())
    cluster.putSlice(service, name, groups[i] ?? [])
  for (const { metadata } of cluster.slicesOf(service))
    if (!names.includes(metadata.name))
      cluster.server.delete('endpointslices', metadata.name)
}

/** Pods on their way out: some still serve. */
export const terminate: Change = (cluster, random) =>
  withSlice(cluster, random, slice => {
    const serving = random.chance(0.7)
    const all = random.chance(0.5)
    const conditions = { ready: false, serving, terminating: true }
    const endpoints = slice.endpoints.map(each =>
      all || random.chance(0.4) ? { ...each, conditions } : each,
    )
    cluster.server.apply({ ...slice, endpoints })
    return serving ? 'terminating' : 'terminating, not serving'
  })

export const recover: Change = (cluster, random) =>
  withSlice(cluster, random, slice => {
    const conditions = random.pick([
      { ready: true, serving: true, terminating: false },
      { ready: null, serving: null, terminating: null },
      {},
    ])
    const endpoints = slice.endpoints.map(each => ({ ...each, conditions }))
    cluster.server.apply({ ...slice, endpoints })
    return 'ready again'
  })

export const unready: Change = (cluster, random) =>
  withSlice(cluster, random, slice => {
    const conditions = { ready: false, serving: false, terminating: false }
    const endpoints = slice.endpoints.map(each =>
      random.chance(0.5) ? { ...each, conditions } : each,
    )
    cluster.server.apply({ ...slice, endpoints })
    return 'not ready'
  })

/** An endpoint goes from one slice to another, in two writes of either order. */
export const move: Change = (cluster, random) =>
  withSlice(cluster, random, (from, service) => {
    const [moving, ...rest] = from.endpoints
    if (moving === undefined) return ''
    const others = cluster
      .slicesOf(service)
      .filter(({ metadata }) => metadata.name !== from.metadata.name)
    const to: RawSlice =
      others.length > 0
        ? random.pick(others)
        : {
            ...from,
            metadata: { name: `${service}-more`, labels: from.metadata.labels ?? {} },
            endpoints: [],
          }
    const writes = [
      { ...to, endpoints: [...to.endpoints, moving] },
      { ...from, endpoints: rest },
    ]
    const inOrder = random.chance(0.7)
    for (const write of inOrder ? writes : writes.toReversed())
      cluster.server.apply(write)
    return inOrder ? 'move between slices' : 'move between slices, with a gap'
  })

/** Two slices say different things of one address. */
export const duplicate: Change = (cluster, random) =>
  withSlice(cluster, random, (slice, service) => {
    const [first] = slice.endpoints
    if (first === undefined) return ''
    const terminating = { ready: false, serving: true, terminating: true }
    const twin: RawEndpoint = random.chance(0.5)
      ? first
      : { ...first, conditions: terminating }
    const metadata = { name: `${service}-twin`, labels: slice.metadata.labels ?? {} }
    cluster.server.apply({ ...slice, metadata, endpoints: [twin] })
    return 'twin'
  })

export const recreateSlice: Change = (cluster, random) =>
  withSlice(cluster, random, (slice, service) => {
    const { name } = slice.metadata
    cluster.server.delete('endpointslices', name)
    if (random.chance(0.4)) return 'slice deleted'
    const as = random.chance(0.5) ? name : `${service}-again`
    const metadata = { name: as, labels: slice.metadata.labels ?? {} }
    cluster.server.apply({ ...slice, metadata })
    return 'slice deleted and created'
  })

export const hint: Change = (cluster, random) =>
  withSlice(cluster, random, slice => {
    const forgets = random.chance(0.2)
    const endpoints = slice.endpoints.map((each, i) => ({
      ...each,
      hints: forgets && i === 0 ? {} : { forZones: [{ name: each.zone ?? zones[0] }] },
    }))
    cluster.server.apply({ ...slice, endpoints })
    return forgets ? 'hints, not for all' : 'hints'
  })

export const labelSlice: Change = (cluster, random) =>
  withSlice(cluster, random, slice => {
    const { [labels.headless]: headless, ...rest } = slice.metadata.labels ?? {}
    const given = headless === undefined ? { ...rest, [labels.headless]: '' } : rest
    cluster.server.apply({ ...slice, metadata: { ...slice.metadata, labels: given } })
    return headless === undefined ? 'headless slice' : 'no headless slice'
  })

/** What no API server would take: the slice's last good version stands. */
export const breakSlice: Change = (cluster, random) =>
  withSlice(cluster, random, slice => {
    const metadata = {
      ...slice.metadata,
      annotations: { ...slice.metadata.annotations, [brokenMark]: 'true' },
    }
    const endpoints = [{ addresses: ['10.244.0.300'], conditions: {} }]
    cluster.server.apply({ ...slice, metadata, endpoints })
    return 'break a slice'
  })

const member = (at: number, hints: boolean): Member => ({
  at,
  nodeName: nodeOf(at),
  zone: zoneOf(at),
  ...(hints && { hints: { forZones: [{ name: zoneOf(at) }] } }),
})

const withService = (
  cluster: Cluster,
  random: Random,
  act: (service: string) => string,
): Done | undefined => {
  const all = changeable(cluster)
  if (all.length === 0) return undefined
  const service = random.pick(all).metadata.name
  const what = act(service)
  if (what === '') return undefined
  cluster.mirror(service)
  return { what, service }
}

/** One that is broken is mended by being replaced as a whole, by `scale`. */
const withSlice = (
  cluster: Cluster,
  random: Random,
  act: (slice: RawSlice, service: string) => string,
): Done | undefined =>
  withService(cluster, random, service => {
    const slices = cluster.slicesOf(service).filter(slice => !isBroken(slice))
    return slices.length === 0 ? '' : act(random.pick(slices), service)
  })
