import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { EndpointSlice } from '../../../src/model/service.ts'
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
const served = async (t: Test, text: string) => {
  const turns: GroupTurn[] = []
  let applied = 0
  const slices = new Map<string, EndpointSlice>()
  const source = routeSource({
    routes: [parseRoute(text)],
    onTurn: turn => void turns.push(turn),
  })
  t.teardown(() => source.close())
  await source.start({
    apply: changes => {
      applied += 1
      for (const { kind, name, object } of changes)
        if (kind === 'EndpointSlice' && object !== undefined) slices.set(name, object)
    },
    synced: () => {},
    problems: () => {},
  })
  const states = (): string =>
    [...slices.values()]
      .flatMap(({ endpoints }) => endpoints)
      .map(({ ready, cut }) => (ready ? 'up' : cut === true ? 'cut' : 'down'))
      .join()
  return { states, turns, applied: () => applied }
}

t.test('one of a route is up by its role, and none is where none has it', async t => {
  const [a, b] = [await answering(t, 200), await answering(t, 503)]
  const to = `${testHost}:${a.port},${testHost}:${b.port}`
  const listen = `tcp://${testHost}:${await freeTcpPort()}`
  const route = `${listen}=${to}?name=db&check=http:///primary&on-down=reset`
  const { states, turns } = await served(t, route)
  t.equal(states(), 'cut,cut', 'before anybody has said so')
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
    { up: false, why: /503/ },
  ])
  t.match(second, [
    { group: 'db', up: false, why: /503/ },
    { group: 'db', up: true },
    { up: false, why: /503/ },
  ])
  t.equal(turns.length, first.length + second.length)
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
