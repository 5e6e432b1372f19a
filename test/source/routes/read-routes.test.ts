import t from 'tap'
import { readRoutes } from '../../../src/source/routes/read-routes.ts'
import { placeAt } from '../../../src/source/routes/place.ts'
import { routeObject } from '../../../src/source/routes/route-objects.ts'
import { parseRoute } from '../../../src/source/routes/route-flag.ts'
import type { Route } from '../../../src/source/routes/route.ts'

const fromFile = async (fields: string): Promise<Route | undefined> => {
  const { routes, faults } = await readRoutes(`routes: [{${fields}}]`)
  t.strictSame(faults, [])
  return routes[0]
}

/** Without the text, which is what the user has written. */
const meaning = (route: Route | undefined): Omit<Route, 'text'> => {
  const { text: _, ...rest } = route ?? parseRoute('tcp://[::]:1=none:1')
  return rest
}

t.test('a flag and a file mean the same', async t => {
  const same: [flag: string, fields: string][] = [
    ['tcp://127.0.0.1:1=a:1,b:2', 'listen: tcp://127.0.0.1:1, endpoints: [a:1, b:2]'],
    [
      'UDP://[0::1]:53=[FD00::1]:53?affinity=1h30m',
      'listen: "udp://[::1]:53", endpoints: ["[fd00::1]:53"], affinity: 90m',
    ],
    [
      'tcp://0.0.0.0:1=a:1,b:1|c:1?name=db&replay=1k&retry-early-close=on',
      'name: db, listen: tcp://0.0.0.0:1, tiers: [[a:1, b:1], [c:1]], replay: 1024, retryEarlyClose: true',
    ],
    [
      'tcp://127.0.0.1:1=a:1?retry-early-close=off&answer-within=1500ms&replay=1k',
      'listen: tcp://127.0.0.1:1, endpoints: [a:1], retryEarlyClose: false, answerWithin: 1.5s, replay: 1k',
    ],
    [
      'udp://127.0.0.1:1=a:1?deny=10.0.0.0/8,fd00::1&allow=file:/etc/a.txt',
      'listen: udp://127.0.0.1:1, endpoints: [a:1], deny: [10.0.0.0/8, "fd00::1"], allow: ["file:/etc/a.txt"]',
    ],
    [
      'tcp://127.0.0.1:1=a:1?max-route-connections=5&max-route-rate=6&max-client-connections=7&max-client-rate=8',
      'listen: tcp://127.0.0.1:1, endpoints: [a:1], maxRouteConnections: 5, maxRouteRate: 6, maxClientConnections: 7, maxClientRate: 8',
    ],
    [
      'tcp://127.0.0.1:1=a:1?idle-timeout=1h&lifetime=24h',
      'listen: tcp://127.0.0.1:1, endpoints: [a:1], idleTimeout: 60m, lifetime: 1440m',
    ],
    [
      'tcp://127.0.0.1:1=a:1?retry-early-close=off',
      'listen: tcp://127.0.0.1:1, endpoints: [a:1], retryEarlyClose: false',
    ],
    [
      'tcp://127.0.0.1:1=a:1?retry-early-close=false&replay=0',
      'listen: tcp://127.0.0.1:1, tiers: [[a:1]], retryEarlyClose: false, replay: "0"',
    ],
  ]
  for (const [flag, fields] of same)
    t.strictSame(meaning(parseRoute(flag)), meaning(await fromFile(fields)), flag)
})

t.test('bytes are written in one of these ways', async t => {
  const sizes: [string, number][] = [
    ['0', 0],
    ['1', 1],
    ['1000', 1000],
    ['1k', 1024],
    ['1KiB', 1024],
    ['4Ki', 4096],
    ['64k', 65_536],
    ['64KiB', 65_536],
    ['65536B', 65_536],
  ]
  for (const [text, replay] of sizes) {
    const { retry } = parseRoute(`tcp://127.0.0.1:1=a:1?replay=${text}`)
    t.strictSame(retry, { earlyClose: true, replay }, text)
  }
})

t.test('a route is known by its name, or by where it listens', async t => {
  const texts = async (fields: string) => {
    const route = await fromFile(`${fields}, endpoints: [a:1]`)
    return [route?.name, route?.text]
  }
  t.strictSame(await texts('listen: tcp://127.0.0.1:1, name: db'), ['db', 'db'])
  t.strictSame(await texts('listen: "udp://[::1]:1"'), ['udp---1-1', 'udp://[::1]:1'])
})

t.test('retries and tiers are carried on to the Service and its endpoints', async t => {
  const fields =
    'listen: tcp://127.0.0.1:1, tiers: [[10.0.0.1:1], [10.0.0.2:1]], replay: 1k'
  const route = (await fromFile(fields)) ?? t.fail()
  const { key, changes } = routeObject(route as Route, ({ host, port }) => [
    placeAt(host, port),
  ])
  t.equal(key, 'tcp-127-0-0-1-1')
  const [service, first, second] = changes.map(({ object }) => object)
  t.match(service, { createdAt: 1, retry: { earlyClose: true, replay: 1024 } })
  t.match(first, { endpoints: [{ address: '10.0.0.1', tier: undefined }] })
  t.match(second, { endpoints: [{ address: '10.0.0.2', tier: 1 }] })
  const udp = routeObject(
    parseRoute('udp://127.0.0.1:1=10.0.0.1:1'),
    ({ host, port }) => [placeAt(host, port)],
  )
  t.match(udp.changes[0]?.object, { retry: { earlyClose: false, expectsReplies: true } })
})

t.test('aliases and merges of YAML are taken within bounds', async t => {
  const text = `routes:
  - &db
    listen: tcp://127.0.0.1:1
    endpoints: &all [a:1]
  - <<: *db
    listen: tcp://127.0.0.1:2
  - {listen: tcp://127.0.0.1:3, endpoints: *all}
`
  const { routes, faults } = await readRoutes(text)
  t.strictSame(faults, [])
  t.strictSame(
    routes.map(({ listens, backends }) => [listens[0].port, backends[0]?.host]),
    [
      [1, 'a'],
      [2, 'a'],
      [3, 'a'],
    ],
  )
})
