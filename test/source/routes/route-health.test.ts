import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { EndpointSlice, Service } from '../../../src/model/service.ts'
import type { Problem } from '../../../src/model/snapshot.ts'
import { decodeRoute } from '../../../src/source/routes/decode-route.ts'
import type { Resolve } from '../../../src/source/routes/place.ts'
import type { RawRoute } from '../../../src/source/routes/route-fields.ts'
import type { Route } from '../../../src/source/routes/route.ts'
import { parseRoute } from '../../../src/source/routes/route-flag.ts'
import type { GroupTurn } from '../../../src/health/group-health.ts'
import { routeSource } from '../../../src/source/routes/route-source.ts'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import { until } from '../../support/until.ts'

/** An HTTP server that answers with `status`. */
const answering = async (t: Test, status: number, host = testHost) => {
  const state = { status, port: 0, asked: 0 }
  const server = createServer((_, response) => {
    state.asked += 1
    response.writeHead(state.status).end()
  })
  server.listen(0, host)
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  state.port = (server.address() as AddressInfo).port
  return state
}

/** The endpoints that a route's Service has, as they are now. */
const served = async (t: Test, route: Route | string, resolve?: Resolve) => {
  const turns: GroupTurn[] = []
  const turnedWhile: { states: string; awaits: boolean }[] = []
  let applied = 0
  const slices = new Map<string, EndpointSlice>()
  let service: Service | undefined
  let problems: readonly Problem[] = []
  const source = routeSource({
    routes: [typeof route === 'string' ? parseRoute(route) : route],
    ...(resolve && { resolve }),
    onTurn: turn => {
      turns.push(turn)
      turnedWhile.push({ states: states(), awaits: source.awaitsChecks() })
    },
  })
  t.teardown(() => source.close())
  await source.start({
    apply: changes => {
      applied += 1
      for (const { kind, name, object } of changes)
        if (kind === 'Service') service = object
        else if (kind !== 'EndpointSlice') continue
        else if (object === undefined) slices.delete(name)
        else slices.set(name, object)
    },
    synced: () => {},
    problems: now => (problems = now),
  })
  const states = (): string =>
    [...slices.values()]
      .flatMap(({ endpoints }) => endpoints)
      .map(({ ready, cut }) => (ready ? 'up' : cut === 'down' ? 'cut' : 'down'))
      .join()
  /** `address:port state`, of each endpoint. */
  const listed = (): readonly string[] =>
    [...slices.values()]
      .flatMap(({ endpoints, ports: [one] }) =>
        endpoints.map(({ address, ready, cut = '' }) =>
          `${address}:${one?.port} ${ready ? 'up' : 'down'} ${cut}`.trim(),
        ),
      )
      .toSorted()
  const rest = { service: () => service, problems: () => problems }
  return { source, states, listed, turns, turnedWhile, applied: () => applied, ...rest }
}

t.test('one of a route is up by its role, and none is where none has it', async t => {
  const [a, b] = [await answering(t, 200), await answering(t, 503)]
  const to = `${testHost}:${a.port},${testHost}:${b.port}`
  const listen = `tcp://${testHost}:${await freeTcpPort()}`
  const route = `${listen}=${to}?name=db&check=http:///primary&on-down=reset`
  const { states, turns } = await served(t, route)
  t.equal(states(), 'down,down', 'before anybody has said so: none is cut')
  await until('the primary is found', () => states() === 'up,cut')
  await until('the other has been asked, too', () => turns.length === 2)
  b.status = 200
  a.status = 503
  await until('it has moved', () => states() === 'cut,up')
  b.status = 503
  await until('there is none', () => states() === 'cut,cut')
  // Of two servers that turn at once either may be seen first.
  const of = (port: number) =>
    turns.filter(({ endpoint }) => endpoint === `${testHost}:${port}`)
  const [first, second] = [of(a.port), of(b.port)]
  t.match(first, [
    { group: 'db', up: true },
    { up: false, reason: /503/ },
  ])
  t.match(second, [
    { group: 'db', up: false, reason: /503/ },
    { group: 'db', up: true },
    { up: false, reason: /503/ },
  ])
  t.equal(turns.length, first.length + second.length)
})

t.test('an answer is awaited until it is handed on', async t => {
  const server = await answering(t, 200)
  const listen = `tcp://${testHost}:${await freeTcpPort()}`
  const route = `${listen}=${testHost}:${server.port}?check=http:///`
  const { source, turnedWhile, states } = await served(t, route)
  await until('nothing is awaited', () => !source.awaitsChecks())
  t.equal(states(), 'up')
  t.strictSame(turnedWhile, [{ states: 'down', awaits: true }])
})

t.test('when all are down that are asked for no role, all are tried', async t => {
  const [a, b] = [await freeTcpPort(), await freeTcpPort()]
  const listen = `tcp://${testHost}:${await freeTcpPort()}`
  const route = `${listen}=${testHost}:${a},${testHost}:${b}?check=tcp`
  const { states, turns } = await served(t, route)
  t.equal(states(), 'up,up')
  await until('both are down', () => turns.length === 2)
  // Turns are taken in together, a tenth of a second later.
  await sleep(200)
  await until('both are tried', () => states() === 'up,up')
})

t.test('connections to one that is down are kept unless it is said', async t => {
  const [a, b] = [await answering(t, 200), await freeTcpPort()]
  const listen = `tcp://${testHost}:${await freeTcpPort()}`
  const route = `${listen}=${testHost}:${a.port},${testHost}:${b}?check=tcp`
  const { states } = await served(t, route)
  await until('one is down', () => states() === 'up,down')
})

t.test(
  'a hundred that turn at once are taken in together',
  { skip: process.platform !== 'linux' && '127.0.9.1 is not an address here' },
  async t => {
    const { port } = await answering(t, 200, '0.0.0.0')
    const to = Array.from({ length: 100 }, (_, i) => `127.0.9.${i + 1}:${port}`).join()
    const route = `tcp://${testHost}:${await freeTcpPort()}=${to}?check=http:///`
    const start = performance.now()
    const { states, turns, applied } = await served(t, route)
    await until('all are up', () => states() === Array(100).fill('up').join())
    t.equal(turns.length, 100)
    const most = 4 + (performance.now() - start) / 100
    t.ok(applied() <= most, `${applied()} times, ${most} at most`)
  },
)

const listen = `tcp://${testHost}:1`

/** Of a route that is edited while it runs; `states` sees every state that is handed on. */
const edited = async (t: Test, first: Partial<RawRoute>, resolve?: Resolve) => {
  const routeOf = (raw: Partial<RawRoute>): Route =>
    decodeRoute({ listen, name: 'db', onDown: 'reset', ...raw })
  const { source, listed, ...more } = await served(t, routeOf(first), resolve)
  const seen: (readonly string[])[] = []
  const edit = async (raw: Partial<RawRoute>): Promise<void> => {
    await source.replace([routeOf(raw)])
    seen.push(listed())
  }
  return { ...more, source, listed, edit, seen }
}

t.test('an edit of a check, or one that is added, resets nothing', async t => {
  const a = await answering(t, 200)
  const to = `${testHost}:${a.port}`
  const check = { type: 'http', path: '/' } as const
  const resolve: Resolve = () => Promise.resolve({ addresses: [testHost], ttlMs: 9e4 })
  const { listed, edit, seen } = await edited(t, { endpoints: [to], check }, resolve)
  await until('it is up', () => listed().join() === `${to} up`)
  for (const raw of [
    { check: { ...check, interval: '3s' } },
    { check: { ...check, path: '/x' } },
    { check: { ...check, init: 'down' as const, fall: 9 } },
    { endpoints: [`db.example:${a.port}`], check },
    { listen: `tcp://${testHost}:2`, check },
    { name: 'other', check },
    { check: undefined },
    { check: 'http:///added' },
    { proxyProtocol: 'v2' as const, check: 'http' },
  ])
    await edit({ endpoints: [to], ...raw })
  t.strictSame(new Set(seen.map(String)), new Set([`${to} up`]))
})

t.test(
  'one that is found down by an edited check is cut by three, not by one',
  async t => {
    const a = await answering(t, 200)
    const to = `${testHost}:${a.port}`
    const { listed, edit } = await edited(t, { endpoints: [to], check: 'http' })
    await until('it is up', () => listed().join() === `${to} up`)
    a.status = 503
    const { asked } = a
    await edit({ endpoints: [to], check: 'http:///x' })
    await until('it is cut', () => listed().join() === `${to} down down`)
    t.ok(a.asked >= asked + 3)
  },
)

t.test('old endpoints serve until one of the new ones was asked', async t => {
  const [a, b] = [await answering(t, 200), await answering(t, 200)]
  const [old, next] = [`${testHost}:${a.port}`, `${testHost}:${b.port}`]
  const pool = (endpoint: string) => [{ names: ['db.example'], endpoints: [endpoint] }]
  for (const raw of [
    (endpoint: string) => ({ endpoints: [endpoint] }),
    (endpoint: string) => ({ serverNames: pool(endpoint) }),
  ]) {
    const { listed, edit } = await edited(t, {
      ...raw(old),
      check: 'http',
      onGone: 'reset',
    })
    await until('the old one is up', () => listed().join() === `${old} up`)
    await edit({ ...raw(next), check: 'http', onGone: 'reset' })
    t.strictSame(listed(), [`${old} up`])
    await until('the new one was', () => listed().includes(`${next} up`))
    t.ok(listed().includes(`${old} down down`), 'and the old one is gone')
  }
})

t.test(
  'while new ones can not be asked all but endpoints is as it is wanted',
  async t => {
    const [a, b] = [await answering(t, 200), await answering(t, 200)]
    const [old, next] = [`${testHost}:${a.port}`, `${testHost}:${b.port}`]
    const { edit, service, problems, seen } = await edited(t, { endpoints: [old] })
    await edit({
      listen: `tcp://[::1]:2`,
      endpoints: [next],
      check: {
        type: 'redis',
        role: 'primary',
        password: 'file:/nowhere',
        interval: '1s',
      },
      maxRouteRate: 5,
      proxyProtocol: 'v2',
    })
    t.strictSame(seen, [[`${old} up`]])
    t.match(service(), { listens: [{ address: '::1' }], limits: { routeRate: 5 } })
    t.equal(service()?.proxyProtocol, undefined, 'is for those that are to come')
    const message = /^not checked: .nowhere .*; still using the previous endpoints$/
    await until('it is told why', () => problems().length > 0)
    t.match(problems(), [{ object: 'route "db"', field: 'check', message }])
  },
)

t.test('while a new name is not known old ones are asked and told as before', async t => {
  const a = await answering(t, 200)
  const old = `${testHost}:${a.port}`
  const resolve: Resolve = () => Promise.reject(new Error('SERVFAIL'))
  const before = { endpoints: [old], check: 'tcp' as const }
  const { edit, service, seen, listed } = await edited(t, before, resolve)
  const check = { type: 'http', port: await freeTcpPort(), interval: '200ms' } as const
  await edit({ endpoints: ['next.example:1'], proxyProtocol: 'v1', check })
  t.strictSame(seen, [[`${old} up`]])
  t.equal(service()?.proxyProtocol, undefined)
  await sleep(1500)
  t.strictSame(listed(), [`${old} up`])
})

t.test('answers that alternate leave no gap, and cut nothing', async t => {
  const hosts = ['127.0.9.1', '127.0.9.2']
  const { port } = await answering(t, 200, '0.0.0.0')
  let answers = 0
  const resolve: Resolve = () =>
    Promise.resolve({ addresses: hosts.filter((_, i) => i === answers % 2), ttlMs: 1000 })
  const check = { type: 'http', interval: '10s' } as const
  const { listed, source } = await edited(
    t,
    { endpoints: [`db.example:${port}`], check },
    resolve,
  )
  const now = () => listed().join()
  await until('the first is up', () => now() === `${hosts[0]}:${port} up`)
  for (answers of [1, 2, 3]) {
    const [old, next] = [hosts[(answers + 1) % 2], hosts[answers % 2]]
    source.reload()
    await until('there is the other', () => {
      t.ok(now().includes('up'), now())
      t.notOk(now().includes('down down'), now())
      return now() === `${next}:${port} up`
    })
    t.notOk(now().includes(old ?? ''))
  }
})
