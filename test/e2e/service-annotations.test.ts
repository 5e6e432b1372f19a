// A process of its own: it mostly waits.
import { once } from 'node:events'
import t from 'tap'
import { nodeObject } from '../support/api-server/builders.ts'
import { startApiServer } from '../support/api-server/for-test.ts'
import { clusterService } from '../support/cluster.ts'
import { manifestFile, service, slice } from '../support/manifests.ts'
import { freeTcpPort, testHost } from '../support/ports.ts'
import { ownHeader } from '../../src/util/proxy-header.ts'
import { dial, firstWord, namedBackend, tcpBackend } from '../support/tcp-backend.ts'
import { until } from '../support/until.ts'
import { startUsher } from '../support/usher.ts'
import { netnsProblem } from '../support/netns.ts'
import { dualService, makeOneNode } from './capture/one-node.ts'

t.jobs = 2

t.test('annotations of a Service of the API, as its clients see them', async t => {
  const server = await startApiServer(t)
  server.apply(nodeObject('node-1'))
  const broken = await tcpBackend(t, socket => void socket.end())
  const good = await namedBackend(t, 'good')
  const web = await clusterService(server, 'web')
  web.put()
  web.scale(broken, good)
  const usher = await startUsher(
    t,
    'run',
    `--kubeconfig=${server.kubeconfig()}`,
    '--hostname-override=node-1',
    '--proxy-mode=userspace',
    '--capture=listen',
  )
  const answers = async () => [...(await web.askers(10))].toSorted()
  const told = () =>
    server.objects('events').filter(({ reason }) => reason === 'AnnotationWithoutEffect')

  await until('both are asked', async () => (await answers()).length === 2)
  web.put({}, { 'usher-proxy.io/retry-early-close': 'true' })
  await until('the early close is seen by no client', async () => {
    return (await answers()).join() === 'good'
  })
  t.strictSame((await usher.status()).problems, [])

  web.put(
    {},
    {
      'usher-proxy.io/retry-early-close': 'true',
      'usher-proxy.io/hold': 'long',
      'usher-proxy.io/most-heldd': '1',
    },
  )
  await until('an Event says what is wrong', () => told().length > 0)
  const { uid } = server.objects('services').find(one => one.metadata.name === 'web')
    ?.metadata ?? { uid: 'none' }
  t.match(told(), [
    {
      type: 'Warning',
      regarding: { kind: 'Service', namespace: 'default', name: 'web', uid },
      note: /hold"\] "long" is not a duration.*most-heldd"\] is unknown; did you mean most-held\?/,
    },
  ])
  t.match(
    (await usher.status()).problems.map(({ object }) => object),
    ['Service default/web', 'Service default/web'],
  )
  t.strictSame(await answers(), ['good'], 'the rest is still done')

  web.put()
  await until('without annotations all is as it was', async () => {
    const { problems } = await usher.status()
    return problems.length === 0 && (await answers()).length === 2
  })
  t.equal(told().length, 1)
})

t.test('a Service in a file lets its clients wait', async t => {
  const port = await freeTcpPort()
  const backend = await namedBackend(t, 'late')
  const web = service('web', testHost, [{ name: 'p', port }])
  const annotations = { 'usher-proxy.io/hold': '20s' }
  const waiting = { ...web, metadata: { name: 'web', annotations } }
  const file = await manifestFile(t, waiting)
  const usher = await startUsher(
    t,
    'run',
    '--manifests',
    file.path,
    '--proxy-mode=userspace',
    '--capture=listen',
  )
  let answer = ''
  const asking = firstWord(port).then(word => (answer = word))
  await new Promise(resolve => setTimeout(resolve, 300))
  t.equal(answer, '', 'it waits')
  await file.write(waiting, ...slice('web', [backend.endpoint]))
  await asking
  t.equal(answer, 'late')
  await file.write(web)
  await until('it waits no more', async () => (await firstWord(port)) === 'ECONNREFUSED')
  t.strictSame((await usher.status()).problems, [])
})

t.test('clients and checks come with a header of the PROXY protocol', async t => {
  const port = await freeTcpPort()
  const heard: string[] = []
  const backend = await tcpBackend(t, socket => {
    const which = heard.push('') - 1
    socket.on('data', data => {
      heard[which] += data.toString('latin1')
      // Once: the header may come in a segment of its own.
      if (heard[which]?.endsWith('question') === true) socket.write('heard')
    })
    socket.on('end', () => socket.end())
  })
  const db = service('db', testHost, [{ name: 'p', port }])
  const annotations = {
    'usher-proxy.io/proxy-protocol': 'v1',
    'usher-proxy.io/check': 'tcp',
  }
  const file = await manifestFile(
    t,
    { ...db, metadata: { name: 'db', annotations } },
    ...slice('db', [backend.endpoint]),
  )
  const usher = await startUsher(
    t,
    'run',
    '--manifests',
    file.path,
    '--proxy-mode=userspace',
    '--capture=listen',
  )
  const own = ownHeader('v1').toString()
  await until('it is checked', () => heard.includes(own))
  const client = dial(t, port)
  client.write('a question')
  t.equal(String((await once(client, 'data'))[0]), 'heard')
  const { localAddress = '', localPort = 0 } = client
  const header = `PROXY TCP4 ${localAddress} ${testHost} ${localPort} ${port}\r\n`
  const asked = (): string[] => heard.filter(text => text !== own && text !== '')
  await until('all has come', () => asked()[0]?.endsWith('question') === true)
  t.strictSame(asked(), [`${header}a question`], 'and nobody else has said anything')
  await until('it is found up', async () => {
    const [first] = (await usher.servicePort('db:p')).endpoints
    return first?.check?.up === true
  })
})

const why = await netnsProblem('iptables', 'nft', 'conntrack')
const skip = why !== '' && why
const vips = ['10.96.0.40', 'fd00:96::40']

for (const way of ['--capture=nftables', '--capture=iptables', '--proxy-mode=nftables'])
  t.test(
    `${way}: clients wait for the first endpoint where hold says so`,
    { skip },
    async t => {
      const { agent, manifests, start } = await makeOneNode(t, 'hold')
      const objects = dualService('web', vips, {}, { 'usher-proxy.io/hold': '30s' })
      await manifests.write(...objects.filter(({ kind }) => kind === 'Service'))
      const usher = start(way)
      await usher.ready(2)
      const asked = vips.map(address =>
        agent.dial({ protocol: 'TCP', address, port: 80 }, 60_000),
      )
      await until('they wait', async () => {
        const { servicePorts } = await usher.status()
        return servicePorts.every(({ held }) => held === 1)
      })
      await manifests.write(...objects)
      t.match(
        await Promise.all(asked),
        vips.map(() => ({ result: 'answer' })),
      )
    },
  )
