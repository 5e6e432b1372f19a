import t, { type Test } from 'tap'
import type { Placement, PlacementKind } from '../../src/capture/capture.ts'
import type { Change } from '../../src/model/service.ts'
import type { EndedPage, EndedQuery } from '../../src/relay/ended-connections.ts'
import { order } from '../support/control-socket.ts'
import { portSpec, put, service } from '../support/objects.ts'
import { controlSocket } from './control-fixture.ts'

const web = service('web', {
  clusterIPs: ['10.0.0.1', 'fd00::1'],
  ports: [portSpec(), portSpec({ name: 'dns', protocol: 'UDP', port: 53 })],
})

const one: EndedPage['ended'][number] = {
  listener: 'default/web:http',
  client: '[fd00::9]:1234',
  endpoint: '10.1.0.1:8080',
  attempts: [
    { endpoint: '10.1.0.2:8080', result: 'refused', ms: 0.123_456 },
    { endpoint: '10.1.0.1:8080', result: 'connected', ms: 1 },
  ],
  bytesToBackend: 3,
  bytesToClient: 4,
  dialMs: 1.000_04,
  totalMs: 2,
  cause: 'SD',
  detail: 'ECONNRESET',
  endedAt: 1_700_000_000_123,
}

/** A control socket beside a relay that answers with a page: what it was asked. */
const setUp = async (t: Test, ...more: Change[]) => {
  const asked: EndedQuery[] = []
  const page = { ended: [one], leftOut: 7, gap: true, next: 'n', isFull: false }
  const setting = await controlSocket(t, [put(web), ...more], {
    ended: async query => {
      asked.push(query)
      return page
    },
    'close-connections': async ids => ids,
  })
  return { ...setting, asked, page }
}

t.test(
  'ends of connections are asked of the relay, by names of ServicePorts',
  async t => {
    const { path, asked, page } = await setUp(t)
    const clients = ['10.0.0.0/8', '::1']
    const request = { routes: ['default/web'], after: 'x', failed: true, clients }
    const bounds = { perSecond: 5, limit: 20 }
    t.strictSame(await order(path, '/ended', { ...request, ...bounds }), {
      status: 200,
      body: {
        connections: [
          {
            route: 'default/web:http',
            client: '[fd00::9]:1234',
            endpoint: '10.1.0.1:8080',
            attempts: [
              { endpoint: '10.1.0.2:8080', result: 'refused', ms: 0.123 },
              { endpoint: '10.1.0.1:8080', result: 'connected', ms: 1 },
            ],
            bytesToBackend: 3,
            bytesToClient: 4,
            dialMs: 1,
            totalMs: 2,
            endedAt: '2023-11-14T22:13:20.123Z',
            cause: 'SD',
            causeText: 'reset by the endpoint',
            detail: 'ECONNRESET',
          },
        ],
        leftOut: 7,
        gap: true,
        notes: ['default/web:dns: only TCP connections are told of'],
        next: 'n',
      },
    })
    const listeners = ['default/web:http']
    t.strictSame(asked, [
      {
        routes: ['default/web'],
        listeners,
        after: 'x',
        failed: true,
        clients,
        ...bounds,
      },
    ])

    page.next = ''
    t.match(await order(path, '/ended', request), { body: { next: 'x' } })
    page.isFull = true
    t.match(await order(path, '/ended', { routes: ['default/web:http'] }), {
      status: 503,
      body: { error: { code: 'TOO_MANY', message: /too many different queries/ } },
    })
    t.match(await order(path, '/ended', { routes: ['default/wep'] }), {
      status: 404,
      body: { error: { code: 'UNKNOWN_ROUTE', message: /did you mean default\/web/ } },
    })
  },
)

t.test('beside a kernel mode a relay is asked of what it carries', async t => {
  const own = put(service('own', { clusterIPs: ['10.0.0.2'] }))
  const { path, asked, mode, plane, reconciler } = await setUp(t, own)
  mode.name = 'nftables'
  mode.placements = reconciler.snapshots().flatMap(({ servicePorts }) =>
    [...servicePorts.values()].map((servicePort): Placement => {
      const isOwn = servicePort.serviceName === 'own'
      const capture: PlacementKind = isOwn ? 'nftables' : 'kernel'
      const vips = servicePort.vips.map(vip => ({ vip, capture, binds: [], reason: '' }))
      return { servicePort, listenerId: servicePort.key, vips }
    }),
  )
  const both = { routes: ['default/web', 'default/own'] }
  t.match(await order(path, '/ended', both), {
    status: 200,
    body: {
      connections: [{ client: one.client }],
      notes: [/^default\/web:dns: only TCP/, /^default\/web:http: the kernel forwards/],
    },
  })
  t.match(asked, [{ listeners: [/^default\/own/] }])
  const kernelMode = { status: 409, body: { error: { code: 'KERNEL_MODE' } } }
  t.match(await order(path, '/ended', { routes: ['default/web'] }), kernelMode)
  t.equal(asked.length, 1)
  t.match(await order(path, '/connections', {}), {
    status: 200,
    body: { notes: [/^in nftables mode the kernel forwards connections of other Serv/] },
  })
  const listed = await order(path, '/connections', both)
  t.strictSame((listed.body as { notes: string[] }).notes, [
    'default/web:dns: only TCP connections are told of',
    'default/web:http: the kernel forwards its connections, and Usher does not see them',
  ])
  t.match(await order(path, '/connections', { routes: ['default/web'] }), kernelMode)
  t.match(await order(path, '/close', { connections: ['1-a-1'] }), {
    body: { connections: [{ closed: true }] },
  })
  t.match(await order(path, '/pause', both), kernelMode)
  plane.hasRelay = false
  for (const [command, body] of [
    ['ended', { routes: ['default/own'] }],
    ['connections', {}],
    ['close', { connections: ['1-a-1'] }],
  ] as const)
    t.match(await order(path, `/${command}`, body), kernelMode, command)
})
