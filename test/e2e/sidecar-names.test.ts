// A process of its own: it starts Usher, and mostly waits.
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import * as dns from '../source/routes/dns/dns-server.ts'
import { freeTcpPort, testHost } from '../support/ports.ts'
import { dial, firstWord, namedEcho } from '../support/tcp-backend.ts'
import { until } from '../support/until.ts'
import { startUsher, startUsherBy } from '../support/usher.ts'

const [a, srv] = [1, 33]
const skip = process.getuid?.() !== 0 && 'mounting needs root'

t.test('SRV records of a higher number are for when the others fail', async t => {
  const [first, second] = [await namedEcho(t, 'first'), await namedEcho(t, 'second')]
  const server = await dns.dnsServer(t, asked =>
    asked.type === srv
      ? dns.reply(asked, [
          dns.srv(asked.name, [20, 9, second.endpoint.port, 'host.example']),
          dns.srv(asked.name, [10, 1, first.endpoint.port, 'host.example']),
        ])
      : dns.reply(asked, asked.type === a ? [dns.a(asked.name, testHost)] : []),
  )
  const port = await freeTcpPort()
  await startUsher(
    t,
    'sidecar',
    `--route=tcp://${testHost}:${port}=srv:_echo._tcp.example`,
    `--resolver=${server.address}:${server.port}`,
  )
  for (let i = 0; i < 6; i += 1) t.equal(await firstWord(port), 'first')
  await first.close()
  t.equal(await firstWord(port), 'second')
})

t.test('SRV weights are shares, those of the last answer', async t => {
  const names = ['one', 'two']
  const [one, two] = await Promise.all(names.map(name => namedEcho(t, name)))
  const state = { weights: [3, 0] }
  const server = await dns.dnsServer(t, asked => {
    const records = [one, two].map((backend, i) => {
      const data = [0, state.weights[i] ?? 0, backend?.endpoint.port ?? 0, 'host.example']
      return dns.srv(asked.name, data as [number, number, number, string], 0)
    })
    if (asked.type === srv) return dns.reply(asked, records)
    return dns.reply(asked, asked.type === a ? [dns.a(asked.name, testHost, 300)] : [])
  })
  const port = await freeTcpPort()
  await startUsher(
    t,
    'sidecar',
    `--route=tcp://${testHost}:${port}=srv:_echo._tcp.example`,
    `--resolver=${server.address}:${server.port}`,
    '--relay-workers=1',
  )
  const turns = async (count: number): Promise<string> => {
    const words: string[] = []
    for (let i = 0; i < count; i += 1) words.push(await firstWord(port))
    return words.toSorted().join(' ')
  }
  t.equal(await turns(4), 'one one one one', 'none for weight 0')
  state.weights = [0, 3]
  await until('it changes', async () => (await turns(1)) === 'two')
  t.equal(await turns(4), 'two two two two')
  state.weights = [4, 2]
  await until('it changes', async () => (await turns(1)) === 'one')
  t.equal(await turns(6), 'one one one one two two', 'of any six turns')
})

t.test('a sidecar follows names: changes, failures, SRV', async t => {
  const [one, two] = [await namedEcho(t, 'one'), await namedEcho(t, 'two')]
  const name = '_echo._tcp.example'
  const state = { port: one.endpoint.port, works: true }
  const server = await dns.dnsServer(t, asked => {
    if (!state.works) return dns.reply(asked, [], { rcode: 2 })
    if (asked.name === name && asked.type === srv)
      return dns.reply(asked, [dns.srv(name, [0, 0, state.port, 'host.example'], 0)])
    if (asked.name === 'host.example' && asked.type === a)
      return dns.reply(asked, [dns.a(asked.name, testHost, 0)])
    return dns.nxdomain(asked)
  })
  const port = await freeTcpPort()
  const usher = await startUsher(
    t,
    'sidecar',
    `--route=tcp://${testHost}:${port}=srv:${name}`,
    `--resolver=${server.address}:${server.port}`,
    '--relay-workers=1',
  )
  const client = dial(t, port)
  t.equal(String(await once(client, 'data')), 'one')
  state.port = two.endpoint.port
  await until('new ones go to the new one', async () => (await firstWord(port)) === 'two')
  client.write('still here')
  t.equal(String(await once(client, 'data')), 'still here', 'the old one stays')
  state.works = false
  const record = await usher.logged('a host name could not be resolved')
  t.match(record, {
    why: `cannot resolve srv:${name}: ${server.address}:${server.port}: it failed (SERVFAIL)`,
  })
  t.equal(await firstWord(port), 'two', 'what was known stays')
  const { problems } = await usher.status()
  t.match(problems, [{ field: `endpoint "srv:${name}"`, message: /SERVFAIL/ }])
  client.end()
})

t.test('names are asked for anew when all they stand for refuse', async t => {
  const [one, two] = [await namedEcho(t, 'one'), await namedEcho(t, 'two')]
  const name = '_echo._tcp.example'
  const state = { port: one.endpoint.port }
  let asked = 0
  const server = await dns.dnsServer(t, question => {
    if (question.type === srv) {
      asked += 1
      const record = [0, 0, state.port, 'host.example'] as const
      return dns.reply(question, [dns.srv(name, record, 300)])
    }
    return dns.reply(
      question,
      question.type === a ? [dns.a(question.name, testHost, 300)] : [],
    )
  })
  const port = await freeTcpPort()
  await startUsher(
    t,
    'sidecar',
    `--route=tcp://${testHost}:${port}=srv:${name}`,
    `--resolver=${server.address}:${server.port}`,
    '--relay-workers=2',
  )
  t.equal(await firstWord(port), 'one')
  state.port = two.endpoint.port
  t.equal(await firstWord(port), 'one', 'the answer holds for 300 s')
  await one.close()
  t.equal(await firstWord(port), 'two', 'the client that found it out is served, too')
  await two.close()
  const before = asked
  const began = performance.now()
  while (performance.now() - began < 2500)
    await Promise.all(Array.from({ length: 100 }, () => firstWordOrLeave(port)))
  const seconds = (performance.now() - began) / 1000
  const times = asked - before
  t.ok(times >= 2, 'it is asked for again')
  t.ok(times <= seconds + 2, `once a second: ${times} times in ${seconds} s`)
})

/** As `firstWord`, of a client that does not wait for longer than 100 ms. */
const firstWordOrLeave = (port: number): Promise<unknown> => {
  const socket = connect(port, testHost)
  socket.on('error', () => {})
  socket.setTimeout(100, () => socket.destroy())
  return new Promise(resolve => socket.on('close', resolve))
}

t.test('onGone: reset ends what is open to an address that has left', async t => {
  const [one, two] = [await namedEcho(t, 'one'), await namedEcho(t, 'two')]
  const name = '_echo._tcp.example'
  const state = { ports: [one.endpoint.port, two.endpoint.port], works: true }
  const server = await dns.dnsServer(t, question => {
    if (!state.works) return dns.reply(question, [], { rcode: 2 })
    if (question.type === srv) {
      const records = state.ports.map(port =>
        dns.srv(name, [0, 0, port, 'host.example'], 0),
      )
      return dns.reply(question, records)
    }
    return dns.reply(
      question,
      question.type === a ? [dns.a(question.name, testHost, 60)] : [],
    )
  })
  const [reset, kept, filed] = [
    await freeTcpPort(),
    await freeTcpPort(),
    await freeTcpPort(),
  ]
  const path = `${t.testdir({ 'routes.yaml': '' })}/routes.yaml`
  const write = (endpoints: readonly string[]) =>
    writeFile(
      path,
      JSON.stringify({
        routes: [
          {
            name: 'file',
            listen: `tcp://${testHost}:${filed}`,
            endpoints,
            onGone: 'reset',
          },
        ],
      }),
    )
  await write([one.endpoint.key, two.endpoint.key])
  const usher = await startUsher(
    t,
    'sidecar',
    `--config=${path}`,
    `--route=tcp://${testHost}:${reset}=srv:${name}?on-gone=reset`,
    `--route=tcp://${testHost}:${kept}=srv:${name}`,
    `--resolver=${server.address}:${server.port}`,
    '--log-level=debug',
  )
  const clients = new Map<string, Socket>()
  const lost: string[] = []
  for (const [route, port] of Object.entries({ reset, kept, filed }))
    for (let i = 0; i < 2; i += 1) {
      const client = dial(t, port)
      const which = `${route} ${String(await once(client, 'data'))}`
      client.on('error', ({ message }) => lost.push(`${which} ${message}`))
      clients.set(which, client)
    }
  t.equal(clients.size, 6, 'each route has one to each')
  state.works = false
  await usher.logged('a host name could not be resolved')
  t.strictSame(lost, [], 'a failed answer takes nothing away')
  Object.assign(state, { ports: [two.endpoint.port], works: true })
  await until('it is reset', () => lost.length === 1)
  await write([two.endpoint.key])
  await until('and so it is of the file', () => lost.length === 2)
  t.strictSame(lost, ['reset one read ECONNRESET', 'filed one read ECONNRESET'])
  for (const which of ['reset two', 'kept one', 'kept two', 'filed two']) {
    const client = clients.get(which)
    client?.write('still here')
    t.equal(client && String(await once(client, 'data')), 'still here', which)
  }
  const endpoint = one.endpoint.key
  await usher.logged('connection closed', { cause: 'DD', endpoint })
  for (const port of [reset, kept, filed]) t.equal(await firstWord(port), 'two')
})

t.test(
  "dead names keep no good one waiting, with the system's resolver",
  { skip },
  async t => {
    const one = await namedEcho(t, 'one')
    const server = await dns.dnsServer(t, asked => {
      if (asked.name !== 'good.example') return undefined
      return dns.reply(asked, asked.type === a ? [dns.a(asked.name, testHost)] : [])
    })
    const conf = `nameserver ${server.address}:${server.port}\noptions ndots:0\n`
    const path = join(t.testdir({ conf }), 'conf')
    const routes = await Promise.all(
      ['dead1', 'dead2', 'dead3', 'good'].map(async name => ({
        name,
        port: await freeTcpPort(),
      })),
    )
    const began = performance.now()
    const usher = await startUsherBy(
      t,
      [
        'unshare',
        '--mount',
        'sh',
        '-c',
        'mount --bind "$0" /etc/resolv.conf; exec "$@"',
        path,
      ],
      'sidecar',
      ...routes.map(
        ({ name, port }) =>
          `--route=tcp://${testHost}:${port}=${name}.example:${one.endpoint.port}?name=${name}`,
      ),
    )
    t.equal(await firstWord(routes[3]?.port ?? 0), 'one')
    t.ok(performance.now() - began < 8000)
    await until('the dead ones are told', async () =>
      /dead1.example: .*it gave no answer within 1.5 s/.test(
        JSON.stringify((await usher.status()).problems),
      ),
    )
  },
)
