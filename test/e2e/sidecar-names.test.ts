// A process of its own: it starts Usher, and mostly waits.
import { once } from 'node:events'
import t from 'tap'
import * as dns from '../source/routes/dns/dns-server.ts'
import { freeTcpPort, testHost } from '../support/ports.ts'
import { dial, firstWord, namedEcho } from '../support/tcp-backend.ts'
import { until } from '../support/until.ts'
import { startUsher } from '../support/usher.ts'

const [a, srv] = [1, 33]

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
