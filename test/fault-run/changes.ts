import type { Cluster } from './cluster.ts'
import { zones } from './cluster.ts'
import * as endpoints from './endpoint-changes.ts'
import type { Random } from './random.ts'
import * as services from './service-changes.ts'
import type { Change, Done } from './service-changes.ts'

/** Each as often as its number says, among their sum. */
const rows: readonly (readonly [number, Change])[] = [
  [6, endpoints.scale],
  [4, endpoints.terminate],
  [3, endpoints.recover],
  [2, endpoints.unready],
  [4, endpoints.move],
  [2, endpoints.duplicate],
  [3, endpoints.recreateSlice],
  [2, endpoints.hint],
  [1, endpoints.labelSlice],
  [1, endpoints.breakSlice],
  [4, services.createService],
  [2, services.deleteService],
  [2, services.replaceService],
  [1, services.renumberService],
  [3, services.reshapeService],
  [2, services.changeAffinity],
  [2, services.annotate],
  [2, services.lendService],
  [1, services.beheadService],
  [1, services.breakService],
]

const all: readonly Change[] = rows.flatMap(([times, change]) =>
  Array.from({ length: times }, () => change),
)

/** Does something to the cluster; `service` '' is for what touches all of them. */
export const change = (cluster: Cluster, random: Random): Done => {
  if (random.chance(0.05)) return changeNode(cluster, random)
  for (;;) {
    const done = random.pick(all)(cluster, random)
    if (done !== undefined) return done
  }
}

/** Fills a cluster: some Services that stay as they are, and others that do not. */
export const settle = (cluster: Cluster, random: Random): void => {
  cluster.putNode(zones[0], false)
  for (const [vip, name, spec] of steady) {
    cluster.putService(name, vip, { spec })
    endpoints.scaleTo(cluster, random, name, 8, false)
    cluster.mirror(name)
  }
  while (cluster.services.length < 16) {
    const done = services.createService(cluster, random)
    if (done === undefined) break
    endpoints.scaleTo(cluster, random, done.service, random.between(0, 5))
    cluster.mirror(done.service)
  }
}

const tcp = [{ protocol: 'TCP', port: 7080 }]

const steady: readonly (readonly [number, string, Readonly<Record<string, unknown>>])[] =
  [
    [0, 'steady-cluster', { ports: tcp }],
    [1, 'steady-local', { ports: tcp, internalTrafficPolicy: 'Local' }],
    [2, 'steady-client', { ports: tcp, sessionAffinity: 'ClientIP' }],
    [3, 'steady-udp', { ports: [{ protocol: 'UDP', port: 7053 }] }],
  ]

const changeNode = (cluster: Cluster, random: Random): Done => {
  const gone = cluster.node !== undefined && random.chance(0.2)
  if (gone) {
    cluster.server.delete('nodes', 'node-1', '')
    return { what: 'the Node is deleted', service: '' }
  }
  const zone = random.pick(zones)
  const leaving = random.chance(0.3)
  cluster.putNode(zone, leaving)
  return { what: `the Node is in ${zone}${leaving ? ' and to go' : ''}`, service: '' }
}
