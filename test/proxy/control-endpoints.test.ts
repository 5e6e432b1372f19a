import type { OpenConnection } from '../../src/relay/open-connections.ts'
import t, { type Test } from 'tap'
import { close, drain, undrain, weight } from '../../src/cli/orders.ts'
import { get } from '../../src/cli/get.ts'
import type { NewOrder } from '../../src/mode/operator-orders.ts'
import type { Service } from '../../src/model/service.ts'
import { order } from '../support/control-socket.ts'
import { endpoint, portSpec, put, service, slice } from '../support/objects.ts'
import { type ControlledRelay, controlSocket, ran } from './control-fixture.ts'

/** web has 10.1.0.1 and 10.1.0.2 (weight 5), api has 10.1.0.1 and an endpoint of IPv6. */
const setUp = (t: Test, relay?: ControlledRelay, ...more: Service[]) =>
  controlSocket(
    t,
    [
      put(service('web')),
      put(slice(['10.1.0.1', endpoint('10.1.0.2', { weight: 5 })])),
      put(service('api', { clusterIPs: ['10.0.0.2', 'fd00::2'] })),
      put(slice(['10.1.0.1'], { name: 'api-1', serviceName: 'api' })),
      put(slice(['fd00::1'], { name: 'api-2', serviceName: 'api', family: 'IPv6' })),
      ...more.map(put),
    ],
    relay,
  )

const drained = (
  path: string,
  endpoints: readonly string[],
  over: Partial<Parameters<typeof drain>[0]> = {},
) =>
  ran(drain, {
    endpoint: endpoints,
    route: [],
    close: 'none',
    for: 0,
    controlSocket: path,
    ...over,
  })

const undrained = (path: string, endpoints: readonly string[], route: string[] = []) =>
  ran(undrain, { endpoint: endpoints, route, controlSocket: path })

const weighted = (path: string, ...given: readonly string[]) =>
  ran(weight, { endpoint: given, route: [], reset: false, controlSocket: path })

t.test('an endpoint is drained in all routes that have it, or in one', async t => {
  const { path, orders } = await setUp(t)
  t.strictSame(await drained(path, ['10.1.0.1:8080']), {
    code: 0,
    out: [
      '10.1.0.1:8080 of default/api:http: drained until it is undrained; open connections stay',
      '10.1.0.1:8080 of default/web:http: drained until it is undrained; open connections stay',
      '',
    ].join('\n'),
    err: '',
  })
  t.equal(orders.all().length, 2)
  t.match(await undrained(path, ['10.1.0.1:8080'], ['default/web']), {
    code: 0,
    out: '10.1.0.1:8080 of default/web:http: undrained\n',
  })
  t.match(orders.all(), [{ kind: 'drain', name: 'default/api:http' }])
  const route = ['default/api:http']
  t.match(await drained(path, ['10.1.0.1:8080'], { route, close: 'all', for: 60_000 }), {
    code: 0,
    out: /^10.1.0.1:8080 of default\/api:http: was already drained; now until 20.*; open connections are reset\n$/,
  })
  t.match(await drained(path, ['[fd00:0::1]:8080'], { close: 'idle' }), {
    code: 0,
    out: /^\[fd00::1\]:8080 of default\/api:http: drained .*as they become idle/,
  })
  t.match(await undrained(path, ['10.1.0.2:8080']), { code: 0, out: /was not drained/ })
})

t.test('an endpoint has another weight, and the one of its source again', async t => {
  const { path, orders } = await setUp(t)
  t.match(await weighted(path, '10.1.0.2:8080', '256'), {
    code: 0,
    out: '10.1.0.2:8080 of default/web:http: weight 256, was 5\n',
  })
  t.match(await weighted(path, '10.1.0.2:8080', '0'), { out: /weight 0, was 256/ })
  t.match(await weighted(path, '10.1.0.2:8080'), {
    code: 0,
    out: '10.1.0.2:8080 of default/web:http: weight 5, as its source says, was 0\n',
  })
  t.match(await weighted(path, '10.1.0.1:8080', '1'), { code: 0, out: /weight 1\n/ })
  t.match(
    orders.all(),
    [{ weight: 1 }, { weight: 1 }],
    'one that is as it was holds, too',
  )
  for (const [given, why] of [
    [['257'], /"257" is not a weight; give a whole number from 0 to 256/],
    [['-1'], /is not a weight/],
    [['1.5'], /is not a weight/],
    [['1', '2'], /"2" is one argument too many/],
  ] as const)
    t.rejects(weighted(path, '10.1.0.1:8080', ...given), { message: why })
})

t.test('of several one that is wrong makes it all wrong', async t => {
  const { path, orders, mode, plane } = await setUp(t)
  for (const [given, route, err] of [
    [
      '10.1.0.3:8080',
      [],
      'there is no endpoint "10.1.0.3:8080"; did you mean 10.1.0.1:8080?',
    ],
    ['10.1.0.2', [], 'there is no endpoint "10.1.0.2"; did you mean 10.1.0.2:8080?'],
    ['fd00::1', [], 'there is no endpoint "fd00::1"; did you mean [fd00::1]:8080?'],
    ['x', [], 'there is no endpoint "x"; usher get endpoints lists them'],
    [
      '10.1.0.2:8080',
      ['default/api'],
      'there is no endpoint "10.1.0.2:8080" of default/api; did you mean 10.1.0.1:8080?',
    ],
    [
      '10.1.0.1:8080',
      ['default/wep'],
      'there is no Service "default/wep"; did you mean default/web?',
    ],
  ] as const)
    t.strictSame(await drained(path, ['10.1.0.1:8080', given], { route: [...route] }), {
      code: 1,
      out: '',
      err: `usher drain: ${err}\n`,
    })
  mode.name = 'ipvs'
  plane.hasRelay = false
  for (const [command, body] of [
    ['drain', { endpoints: ['10.1.0.1:8080'] }],
    ['weight', { endpoints: ['10.1.0.1:8080'], weight: 1 }],
    ['connections', {}],
    ['ended', { routes: ['default/web'] }],
    ['close', { connections: ['1-a-1'] }],
  ] as const)
    t.match(await order(path, `/${command}`, body), {
      status: 409,
      body: {
        error: { code: 'KERNEL_MODE', message: /in ipvs mode the kernel forwards/ },
      },
    })
  t.strictSame(orders.all(), [])
})

t.test('what is no order is refused', async t => {
  const { path, orders } = await setUp(t)
  const endpoints = ['10.1.0.1:8080']
  for (const [command, body, message] of [
    ['drain', {}, /^endpoints: it has to be given/],
    ['drain', { endpoints: [] }, /endpoints: is empty; name an endpoint/],
    ['drain', { endpoints, close: 'some' }, /close: "some" is not none, idle or all/],
    ['drain', { endpoints, routes: [] }, /routes: is empty; name a route/],
    ['undrain', { endpoints, close: 'all' }, /^close: there is no such field/],
    ['weight', { endpoints }, /^weight: it has to be given/],
    ['weight', { endpoints, weight: 257 }, /weight: 257 is not a number from 0 to 256/],
    ['weight', { endpoints, weight: 1.5 }, /weight: 1.5 is not/],
    ['close', { connections: [] }, /is empty; name a connection/],
    ['ended', {}, /^routes: it has to be given/],
    ['ended', { routes: ['default/web'], failed: 'no' }, /failed: "no" is not true or/],
    ['ended', { routes: ['default/web'], clients: ['10.0.0.300'] }, /clients.*neither/],
    ['ended', { routes: ['default/web'], clients: [] }, /clients: is empty/],
    ['ended', { routes: ['default/web'], perSecond: 0 }, /perSecond: 0 is not a number/],
    ['ended', { routes: ['default/web'], perSecond: 1001 }, /from 1 to 1000/],
  ] as const)
    t.match(await order(path, `/${command}`, body), {
      status: 400,
      body: { error: { code: 'BAD_REQUEST', message } },
    })
  t.strictSame(orders.all(), [])
})

t.test('contrary orders at once: each says what is so when it is in effect', async t => {
  const { path, orders, reconciler } = await setUp(t)
  const route = ['default/web']
  const other: NewOrder = {
    kind: 'drain',
    name: 'default/web:http',
    endpoint: '10.1.0.1:8080',
    close: 'all',
  }
  reconciler.applied = async () => void orders.withdraw([other])
  t.match(await drained(path, ['10.1.0.1:8080'], { route }), {
    code: 1,
    out: '',
    err: /is no longer drained: --for expired/,
  })
  reconciler.applied = async () => orders.give([other], undefined)
  t.match(await undrained(path, ['10.1.0.1:8080'], route), {
    code: 1,
    err: /someone has drained it again/,
  })
  reconciler.applied = async () => {
    throw new Error('Usher is ending')
  }
  t.match(await drained(path, ['10.1.0.1:8080'], { route }), {
    code: 1,
    err: 'usher drain: it has no effect: Usher is ending\n',
  })
})

/** A relay with so many connections, which it tells in pages of 1000. */
const crowd = (count: number): ControlledRelay & { readonly closed: string[] } => {
  const closed: string[] = []
  const all = Array.from({ length: count }, (_, i): OpenConnection => {
    const [to, state] =
      i === 0 ? ['', 'waiting' as const] : ['10.1.0.1:80', 'open' as const]
    return {
      id: `1-a-${i + 1}`,
      listener: 'default/web:http',
      client: '[fd00::9]:1234',
      endpoint: to,
      state,
      ageMs: 61_000.4,
      bytesToBackend: 1024,
      bytesToClient: i,
      ...(i > 0 && { idleMs: 2000.7 }),
    }
  })
  return {
    closed,
    connections: async ({ after = '0', limit = Infinity, listeners }) => {
      const from = Number(after)
      const page = all
        .slice(from, from + 1000)
        .filter(one => listeners?.includes(one.listener) ?? true)
      const next = from + 1000 < count ? String(from + 1000) : undefined
      const connections = page.slice(0, limit)
      return { connections, counted: page.length - connections.length, next }
    },
    'close-connections': async ids => ids.filter(id => id === '1-a-2'),
  }
}

const listed = (
  path: string,
  output: '' | 'json' | 'yaml' | 'wide',
  route: string[] = [],
) =>
  ran(get, {
    kind: ['connections'],
    output,
    route,
    controlSocket: path,
    address: '',
    namespace: '',
    allNamespaces: false,
    noHeaders: false,
    watch: false,
  })

t.test('connections are listed, and closed by their names', async t => {
  const { path } = await setUp(t, crowd(2))
  t.strictSame(await listed(path, 'wide'), {
    code: 0,
    out: [
      'NAME   SERVICE           CLIENT          ENDPOINT     STATE     AGE  TO-BACKEND  TO-CLIENT  IDLE',
      '1-a-1  default/web:http  [fd00::9]:1234  -            waiting  1m1s     1.0 KiB        0 B     -',
      '1-a-2  default/web:http  [fd00::9]:1234  10.1.0.1:80  open     1m1s     1.0 KiB        1 B    2s',
      '',
    ].join('\n'),
    err: '',
  })
  const { out } = await listed(path, 'json')
  t.strictSame(JSON.parse(out), {
    apiVersion: 'usher-proxy.io/v1alpha1',
    kind: 'ConnectionList',
    metadata: { leftOut: 0 },
    items: [
      {
        name: '1-a-1',
        route: 'default/web:http',
        client: '[fd00::9]:1234',
        endpoint: '',
        state: 'waiting',
        ageMs: 61_000,
        bytesToBackend: 1024,
        bytesToClient: 0,
        idleMs: null,
      },
      {
        name: '1-a-2',
        route: 'default/web:http',
        client: '[fd00::9]:1234',
        endpoint: '10.1.0.1:80',
        state: 'open',
        ageMs: 61_000,
        bytesToBackend: 1024,
        bytesToClient: 1,
        idleMs: 2001,
      },
    ],
  })
  t.match((await listed(path, 'yaml')).out, /^kind: ConnectionList$/m)
  t.match(await listed(path, '', ['default/api']), {
    code: 0,
    out: '',
    err: /there are no \w+s/,
  })
  t.match(await listed(path, '', ['default/apo']), {
    code: 1,
    err: /did you mean default\/api/,
  })
  t.strictSame(
    await ran(close, { connection: ['1-a-2', '1-a-7'], controlSocket: path }),
    {
      code: 1,
      out: '1-a-2: closed\n',
      err: 'usher close: 1-a-7 is not open: it has ended, or never was\n',
    },
  )
})

t.test('10 000 are listed, and the others counted', async t => {
  const { path } = await setUp(t, crowd(25_500))
  const { body } = (await order(path, '/connections', { limit: 20 })) as {
    body: { connections: unknown[]; left: number }
  }
  t.strictSame([body.connections.length, body.left], [20, 25_480])
  t.match(await order(path, '/connections', { limit: 10_001 }), {
    status: 400,
    body: { error: { message: 'limit: 10001 is not a number from 1 to 10000' } },
  })
  const { code, out, err } = await listed(path, 'json')
  t.equal(code, 0)
  const { items, metadata } = JSON.parse(out) as { items: unknown[]; metadata: object }
  t.equal(items.length, 10_000)
  t.strictSame(metadata, { leftOut: 15_500 })
  t.equal(
    err,
    'usher get: 15500 connections more are left out; a name lists those of one Service or route\n',
  )
})

t.test('of UDP there are none to list, which is said without a look at all', async t => {
  const relay: ControlledRelay = {
    connections: () => Promise.reject(new Error('nothing is to be asked')),
  }
  const ports = [portSpec({ name: '', protocol: 'UDP', port: 53 })]
  const { path } = await setUp(
    t,
    relay,
    service('dns', { ports, clusterIPs: ['10.0.0.3'] }),
  )
  const note = 'default/dns: only TCP connections are told of'
  t.strictSame(await order(path, '/connections', { routes: ['default/dns'] }), {
    status: 200,
    body: { connections: [], left: 0, notes: [note] },
  })
  const { code, err } = await listed(path, '', ['default/dns'])
  t.equal(code, 0)
  t.match(err, `usher get: ${note}\n`)
})
