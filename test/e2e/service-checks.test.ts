// A process of its own: it mostly waits.
import { once } from 'node:events'
import type { Socket } from 'node:net'
import t, { type Test } from 'tap'
import { nodeObject } from '../support/api-server/builders.ts'
import { startApiServer } from '../support/api-server/for-test.ts'
import { type ClusterService, clusterService } from '../support/cluster.ts'
import { freeTcpPort, testHost } from '../support/ports.ts'
import { endpoint } from '../support/relay-fixture.ts'
import { silentBackend } from '../support/silent-backend.ts'
import { dial, namedEcho, tcpBackend } from '../support/tcp-backend.ts'
import { until } from '../support/until.ts'
import { startUsher, type Usher } from '../support/usher.ts'

const check = { 'usher-proxy.io/check': 'tcp' }
const reset = { ...check, 'usher-proxy.io/on-down': 'reset' }

/** A connection through the Service to that endpoint. */
const sessionAt = async (
  t: Test,
  { port }: ClusterService,
  name: string,
): Promise<Socket> => {
  const socket = dial(t, port)
  socket.on('error', () => {})
  const [word] = (await once(socket, 'data')) as [Buffer]
  if (word.toString() === name) return socket
  socket.destroy()
  return sessionAt(t, { port } as ClusterService, name)
}

const goesOn = async (socket: Socket): Promise<boolean> => {
  socket.write('on')
  const [word] = (await once(socket, 'data')) as [Buffer]
  return word.toString() === 'on'
}

/** Ports of the endpoints that get clients now. */
const eligible = async (usher: Usher, { name }: ClusterService): Promise<number[]> => {
  const { endpoints } = await usher.servicePort(name)
  return endpoints.flatMap(each =>
    each.eligible ? [Number(each.endpoint.split(':').at(-1))] : [],
  )
}

t.test('endpoints of Services are checked where an annotation says so', async t => {
  const server = await startApiServer(t)
  server.apply(nodeObject('node-1'))
  const [old, good] = [await namedEcho(t, 'old'), await namedEcho(t, 'good')]
  const counted = await tcpBackend(t, socket => void socket.end('counted'))
  const hung = { endpoint: await silentBackend(t) }
  const late = { endpoint: endpoint(testHost, await freeTcpPort()) }
  const [kept, cut, mixed, brief] = [
    await clusterService(server, 'kept'),
    await clusterService(server, 'cut'),
    await clusterService(server, 'mixed'),
    await clusterService(server, 'brief'),
  ]
  for (const each of [kept, cut, mixed, brief]) each.put()
  kept.scale(old, good)
  cut.scale(old, good)
  mixed.scale(good, hung, late)
  brief.scale(counted)
  const usher = await startUsher(
    t,
    'run',
    `--kubeconfig=${server.kubeconfig()}`,
    '--hostname-override=node-1',
    '--proxy-mode=userspace',
    '--capture=listen',
  )
  const sessions = {
    kept: await sessionAt(t, kept, 'old'),
    cut: await sessionAt(t, cut, 'old'),
  }
  const before = old.accepted
  t.equal(counted.accepted, 0)
  kept.put({}, check)
  cut.put({}, reset)
  mixed.put({}, check)
  brief.put({}, check)

  await t.test('annotations touch no connection that is open', async t => {
    await until('both Services ask', () => old.accepted >= before + 2)
    t.ok(await goesOn(sessions.kept))
    t.ok(await goesOn(sessions.cut))
    await until('all are asked', () => counted.accepted > 0)
    brief.remove()
    await until('one is gone', async () => (await brief.ask()) === 'ECONNREFUSED')
  })
  const askedBefore = counted.accepted
  const ports = { old: old.endpoint.port, good: good.endpoint.port }
  const ended = new Promise<string>(resolve => {
    sessions.cut.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? ''))
  })
  // Connections that are open stay.
  old.server.close()

  const comeBack = () => namedEcho(t, 'late', testHost, late.endpoint.port)
  await t.test('one that refuses and one that hangs get no clients', async t => {
    const gone = async ({ endpoint: { key, port } }: typeof late): Promise<string> => {
      const fields = { service: 'default/mixed', endpoint: key }
      const { why } = await usher.logged('an endpoint is down', fields)
      await until(
        'it gets none',
        async () => !(await eligible(usher, mixed)).includes(port),
      )
      return String(why)
    }
    t.match(await gone(late), /refused/)
    await comeBack()
    t.match(await gone(hung), /not connected/)
    t.ok((await eligible(usher, mixed)).includes(ports.good))
  })

  await t.test('on-down says what becomes of connections', async t => {
    t.equal(await ended, 'ECONNRESET')
    await usher.logged('an endpoint is down', { service: 'default/kept' })
    await until('the other is left', async () => {
      const left = [...(await eligible(usher, kept)), ...(await eligible(usher, cut))]
      return left.join() === [ports.good, ports.good].join()
    })
    t.ok(await goesOn(sessions.kept))
    const metrics = await (await fetch(`http://${usher.metrics}/metrics`)).text()
    t.match(metrics, /failed_total\{[^}]*cut[^}]*cause="DD"[^}]*\} 1/)
    t.notMatch(metrics, /failed_total\{[^}]*kept[^}]*cause="DD"[^}]*\} [1-9]/)
  })

  await t.test('without the annotation all is as the slices say', async t => {
    kept.put()
    await until('all get clients', async () => {
      return (await eligible(usher, kept)).includes(ports.old)
    })
    t.ok(await goesOn(sessions.kept))
  })

  await t.test('one that is back gets clients again', async () => {
    await usher.logged('an endpoint is up', {
      service: 'default/mixed',
      endpoint: late.endpoint.key,
    })
    await until('it has a client', async () => (await mixed.ask()) === 'late')
  })
  t.equal(counted.accepted, askedBefore, 'a Service that is gone is checked no more')
  t.strictSame((await usher.status()).problems, [])
})
