import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { linuxRelaySkip } from '../../support/linux-only.ts'
import { makeLinuxRelayWith } from '../../support/linux-relay.ts'
import { freeTcpPort, freeUdpPort, testHost } from '../../support/ports.ts'
import { relayFixture } from '../../support/relay-fixture.ts'
import { ask, namedBackend, tcpBackend } from '../../support/tcp-backend.ts'
import { namedUdp, silentUdp } from '../../support/udp-backend.ts'
import { clientAddresses, udpClient } from '../../support/udp-client.ts'
import { until } from '../../support/until.ts'

const workers = 4
const retry = { earlyClose: true, replay: 0 }
/** After so many milliseconds the rests of an endpoint that goes on failing are over. */
const restsEnd = [1000, 3000, 7000, 15_000]

t.test(
  'an endpoint that fails rests for all workers',
  {
    skip: linuxRelaySkip(),
  },
  async t => {
    const { listen, stats } = relayFixture(t, makeLinuxRelayWith({ workers }))
    let serves = false
    const bad = await tcpBackend(t, socket => void socket.end(serves ? 'back' : ''))
    const good = await namedBackend(t, 'good')
    const port = await freeTcpPort()
    const endpoints = [bad.endpoint, good.endpoint]
    const binds = [{ address: testHost, port }]
    const isCoolingDown = (): boolean => stats().endpoints[0]?.coolingDown ?? false
    const askMany = (): Promise<string[]> =>
      Promise.all(Array.from({ length: 40 }, async () => (await ask(port)).text))
    await listen({ binds, endpoints, retry })

    const start = performance.now()
    await until('it was tried', async () => {
      await ask(port)
      return bad.accepted > 0
    })
    t.equal(isCoolingDown(), true)
    while (performance.now() - start < 3300) {
      t.strictSame(new Set(await askMany()), new Set(['good']))
      await sleep(20)
    }
    const ended = restsEnd.filter(ms => performance.now() - start >= ms).length
    t.ok(bad.accepted <= 1 + ended, `${bad.accepted} connections in ${ended} rests`)
    t.ok(bad.accepted > 1, 'it was tried again')

    t.test('not when the slot is another endpoint now', async t => {
      await listen({ binds, endpoints: [good.endpoint], retry })
      await listen({ binds, endpoints: [good.endpoint, bad.endpoint], retry })
      t.notOk(stats().endpoints.some(({ coolingDown }) => coolingDown))
      await until('it was tried', async () => (await askMany()) && isLastCoolingDown())
    })
    const isLastCoolingDown = (): boolean => stats().endpoints[1]?.coolingDown ?? false

    t.test('until it serves one of them', async t => {
      serves = true
      await until('one has got through', async () => {
        const texts = await askMany()
        return texts.includes('back') && !isLastCoolingDown()
      })
      const before = bad.accepted
      await askMany()
      t.ok(bad.accepted - before >= (40 - workers) / 2, 'all of them take it in turn')
    })
  },
)

t.test('a UDP endpoint that is silent', { skip: linuxRelaySkip() }, async t => {
  const { listen, stats } = relayFixture(t, makeLinuxRelayWith({ workers }), {
    limits: { udpReplyTimeout: 1500 },
  })
  const port = await freeUdpPort()
  const silent = await silentUdp(t)
  const [a, b] = [await namedUdp(t, 'a'), await namedUdp(t, 'b')]
  const endpoints = [silent.endpoint, a.endpoint, b.endpoint]
  const binds = [{ address: testHost, port }]
  const answers = { ...retry, expectsReplies: true }
  await listen({ protocol: 'UDP', binds, endpoints, retry: answers })
  const silence = (): unknown => stats().endpoints[0]?.coolingDown
  const comes = async (from?: string): Promise<void> =>
    (await udpClient(t, port, testHost, from)).send('hello')
  // Clients are spread by chance, and each worker has turns of its own: of so many flows each
  // endpoint gets five, of three clients at least.
  for (let i = 0; i < 21; i += 1) {
    await comes(clientAddresses[i % clientAddresses.length])
    await sleep(20)
  }
  t.equal(silence(), false, 'no time for an answer is over')
  await until('it rests, by what all workers have seen', () => silence() === true)
  const before = silent.received.length
  const clients = await Promise.all(Array.from({ length: 40 }, () => udpClient(t, port)))
  for (const answer of await Promise.all(clients.map(client => client.ask('hello'))))
    t.match(answer, /^[ab]$/)
  t.equal(silent.received.length, before, 'it rests for all of them')
})
