import { once } from 'node:events'
import { createServer } from 'node:net'
import t, { type Test } from 'tap'
import { atFreePort, serversAt } from '../../../bench/scenarios/sidecar.ts'
import type { Endpoint } from '../../../bench/services.ts'
import { postgresProblem } from '../../../bench/sidecar/postgres-program.ts'
import { startPostgres } from '../../../bench/sidecar/postgres.ts'
import { lane, workDirectory } from '../targets/pods.ts'
import { ask } from '../../support/tcp-backend.ts'

/** Somebody who is quicker: at the first address that he is told of. */
const thief = (t: Test) => {
  const stolen: number[] = []
  const steal = async (at: Endpoint | undefined): Promise<void> => {
    if (at === undefined || stolen.length > 0) return
    stolen.push(at.port)
    const server = createServer().listen(at.port, at.address)
    t.teardown(() => server.close())
    await once(server, 'listening')
  }
  return { stolen, steal }
}

const notLinux = process.platform !== 'linux' && '127.0.1.1 is not an address here'

t.test(
  'servers whose port is taken meanwhile get another',
  { skip: notLinux },
  async t => {
    const { stolen, steal } = thief(t)
    const { endpoints, servers } = await serversAt(lane, 2, async (all, places) => {
      await steal(places[1])
      await Promise.all(places.map(at => all.listen('greets', at)))
    })
    t.teardown(() => servers.stop())
    t.equal(stolen.length, 1)
    t.match(endpoints, [{ address: '127.0.1.1' }, { address: '127.0.1.2' }])
    for (const { address, port } of endpoints) {
      t.notOk(stolen.includes(port))
      t.match(await ask(port, address), { text: 'hello\n' })
    }
  },
)

const noPostgres = postgresProblem() || notLinux

t.test('PostgreSQL, too', { skip: noPostgres }, async t => {
  const { stolen, steal } = thief(t)
  const workDir = await workDirectory(t)
  const { ports, stop } = await atFreePort(lane, 1, async places => {
    await steal(places[0])
    const started = await startPostgres(lane, places, workDir)
    return { ...started, ports: places.map(({ port }) => port) }
  })
  t.teardown(stop)
  t.equal(stolen.length, 1)
  t.notOk(stolen.includes(ports[0] ?? 0))
})

const ends = [
  {
    what: 'one whose ports are taken each time',
    error: 'EADDRINUSE: address already in use',
    times: 5,
  },
  { what: 'one that fails for another reason', error: 'no such program', times: 1 },
]
for (const { what, error, times } of ends)
  t.test(`${what} is given up`, async t => {
    let tried = 0
    const starts = atFreePort(lane, 1, () => {
      tried += 1
      return Promise.reject(new Error(error))
    })
    await t.rejects(starts, { message: error })
    t.equal(tried, times)
  })
