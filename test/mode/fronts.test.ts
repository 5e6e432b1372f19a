import t from 'tap'
import type { VipPlacement } from '../../src/capture/capture.ts'
import { relayFronts } from '../../src/mode/userspace.ts'
import type { Endpoint, ServicePort, Target, VipKind } from '../../src/model/snapshot.ts'
import { rangesOf } from '../../src/util/address-ranges.ts'
import { endpoint } from '../support/objects.ts'
import { frontOf } from '../support/relay-fixture.ts'
import { servicePort } from '../support/service-ports.ts'

const here: Endpoint = { ...endpoint('10.1.0.1'), port: 8080 }
const there: Endpoint = { ...endpoint('10.1.0.2'), port: 8080 }
const forward = (...endpoints: Endpoint[]): Target => ({ verdict: 'forward', endpoints })
const reject: Target = { verdict: 'reject', endpoints: [] }
const drop: Target = { verdict: 'drop', endpoints: [] }

type ServiceVipKind = Exclude<VipKind, 'Route'>

const ports: Readonly<Record<ServiceVipKind, number>> = {
  ClusterIP: 1,
  ExternalIP: 2,
  LoadBalancerIP: 3,
  NodePort: 4,
}
const bindOf = (kind: ServiceVipKind) => ({ address: '127.0.0.1', port: ports[kind] })

/** One VIP of each kind, all on addresses of their own. */
const frontsOf = (over: Partial<ServicePort>) => {
  const kinds = Object.keys(ports) as ServiceVipKind[]
  const vips = kinds.map((kind): VipPlacement => ({
    vip: { kind, ...bindOf(kind) },
    capture: 'local',
    binds: [bindOf(kind)],
    reason: '',
  }))
  return relayFronts({ servicePort: servicePort('web', over), listenerId: 'web', vips })
}

const both = forward(here, there)
const alike = {
  internal: both,
  external: both,
  externalFromNode: both,
  reachable: [here, there],
}
const [cluster, external, balancer, node] = (
  ['ClusterIP', 'ExternalIP', 'LoadBalancerIP', 'NodePort'] as const
).map(bindOf)
if (!cluster || !external || !balancer || !node) throw new Error('four')
const outside = [external, balancer, node]

t.test('without policies all VIPs are one front', async t => {
  t.strictSame(frontsOf(alike), [frontOf([cluster, ...outside])])
  const none = { internal: reject, external: reject, externalFromNode: reject }
  t.strictSame(frontsOf(none), [frontOf([cluster, ...outside])])
})

t.test('an address that two groups ask for is in the first of them alone', async t => {
  const vips = (['LoadBalancerIP', 'NodePort'] as const).map((kind): VipPlacement => {
    const bind = { address: '192.0.2.1', port: 30_080 }
    const vip = { kind, address: kind === 'NodePort' ? '0.0.0.0' : bind.address }
    // A UDP node port listens on each address of the host's.
    const binds = kind === 'NodePort' ? [bind, { ...bind, address: '192.0.2.2' }] : [bind]
    return { vip: { ...vip, port: bind.port }, capture: 'local', binds, reason: '' }
  })
  const over = { ...alike, sourceRanges: ['198.51.100.0/24'] }
  const web = servicePort('web', over)
  t.strictSame(relayFronts({ servicePort: web, listenerId: 'web', vips }), [
    frontOf(vips[0]?.binds ?? [], { allowedClients: rangesOf(over.sourceRanges) }),
    frontOf([{ address: '192.0.2.2', port: 30_080 }]),
  ])
})

t.test('what policies make of them', async t => {
  const [a, b] = ['10.1.0.1:8080', '10.1.0.2:8080']
  const local = '(externalTrafficPolicy: Local)'
  const cases: [string, Partial<ServicePort>, ReturnType<typeof frontsOf>][] = [
    [
      'internal local: ClusterIPs get the local ones',
      { internal: forward(here) },
      [frontOf([cluster], { endpoints: [a ?? ''] }), frontOf(outside)],
    ],
    [
      'internal local without local ones: ClusterIPs are closed, for that reason',
      { internal: drop },
      [
        frontOf([cluster], {
          endpoints: [],
          closedReason: 'no local endpoints (internalTrafficPolicy: Local)',
        }),
        frontOf(outside),
      ],
    ],
    [
      'external local: clients from outside get the local ones, those here all',
      { external: forward(there) },
      [
        frontOf([cluster]),
        frontOf(outside, { endpoints: [b ?? ''], endpointsFromNode: 'all' }),
      ],
    ],
    [
      'external local without local ones: only clients here get any',
      { external: drop },
      [
        frontOf([cluster]),
        frontOf(outside, {
          endpoints: [],
          endpointsFromNode: 'all',
          closedReason: `no local endpoints ${local}`,
        }),
      ],
    ],
    [
      'source ranges: for load-balancer IPs alone',
      { sourceRanges: ['192.0.2.0/24'] },
      [
        frontOf([cluster, external, node]),
        frontOf([balancer], { allowedClients: rangesOf(['192.0.2.0/24']) }),
      ],
    ],
    [
      'source ranges of the other family: nobody may use them',
      { sourceRanges: [] },
      [
        frontOf([cluster, external, node]),
        frontOf([balancer], {
          allowedClients: rangesOf([]),
          closedReason: 'no IPv4 range in loadBalancerSourceRanges',
        }),
      ],
    ],
  ]
  for (const [name, over, expected] of cases) {
    t.test(name, async t => {
      t.strictSame(frontsOf({ ...alike, ...over }), expected)
    })
  }
})
