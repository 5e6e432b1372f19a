import { once } from 'node:events'
import type { Test } from 'tap'
import { reset } from '../../support/reset.ts'
import type { RelayEndpoint } from '../../../src/relay/relay.ts'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import {
  carryingFds,
  endpoint,
  type MakeRelay,
  relayFixture,
  usualLadder,
} from '../../support/relay-fixture.ts'
import { silentBackend } from '../../support/silent-backend.ts'
import { ask, dial, namedBackend, tcpBackend } from '../../support/tcp-backend.ts'
import { until } from '../../support/until.ts'

const at = (port: number) => [{ address: testHost, port }]

const dead = async (): Promise<RelayEndpoint> => endpoint(testHost, await freeTcpPort())

const shortLadder = { limits: { dialLadder: [100, 200, 300] } }

/** Endpoints that refuse, are silent or hang up, and what their clients notice. */
export const tcpDialContract = (t: Test, make: MakeRelay): void => {
  t.test('with 9 of 10 backends dead none of 1000 connections fails', async t => {
    const { listen, stats } = relayFixture(t, make, usualLadder)
    const port = await freeTcpPort()
    const alive = await namedBackend(t, 'alive')
    const nine = await Promise.all(Array.from({ length: 9 }, dead))
    await listen({ binds: at(port), endpoints: [...nine, alive.endpoint] })
    const wrong: string[] = []
    for (let batch = 0; batch < 20; batch += 1) {
      const answers = await Promise.all(Array.from({ length: 50 }, () => ask(port)))
      for (const { text, how } of answers) {
        if (text !== 'alive' || how !== 'end') wrong.push(`${text} ${how}`)
      }
    }
    t.strictSame(wrong, [])
    const { counters, endpoints } = stats()
    t.equal(counters.accepted, 1000)
    t.strictSame(counters.failed, {})
    t.ok(counters.dialRetries >= 9, `${counters.dialRetries} retries were counted`)
    t.ok(counters.dialRetries < 1000, 'and not every connection had to find out')
    t.equal(endpoints.filter(one => one.failures > 0).length, 9, 'nine are blamed')
  })

  t.test(
    'a listener fails from a client that got no endpoint to one that gets one',
    async t => {
      const limits = { dialLadder: [20] }
      const { listen, stats } = relayFixture(t, make, { limits })
      const [port, gone] = [await freeTcpPort(), await freeTcpPort()]
      await listen({ binds: at(port), endpoints: [endpoint(testHost, gone)] })
      t.equal(stats().failing, false)
      t.match(await ask(port), { how: 'ECONNRESET' })
      await until('it fails', () => stats().failing)
      await tcpBackend(t, socket => void socket.end('back'), testHost, gone)
      t.match(await ask(port), { text: 'back' })
      await until('it does not', () => !stats().failing)
    },
  )

  t.test('a silent backend costs others no time and its clients one step', async t => {
    // All clients are there before the first step is over, also on a busy host.
    const { listen, records } = relayFixture(t, make, {
      limits: { dialLadder: [1000, 2000] },
    })
    const port = await freeTcpPort()
    const alive = await namedBackend(t, 'alive')
    const silent = await silentBackend(t)
    await listen({ binds: at(port), endpoints: [silent, alive.endpoint] })
    const answers = await Promise.all(Array.from({ length: 40 }, () => ask(port)))
    t.strictSame(
      answers.filter(({ text }) => text !== 'alive'),
      [],
    )
    await until('all are recorded', () => records.length === 40)
    const direct = records.filter(({ attempts }) => attempts.length === 1)
    const retried = records.filter(({ attempts }) => attempts.length === 2)
    t.equal(direct.length, 20, 'half went straight to the one that lives')
    t.equal(retried.length, 20)
    t.ok(
      direct.every(({ dialMs }) => dialMs < 1000),
      'none of those waited for a step',
    )
    t.ok(retried.every(({ dialMs }) => dialMs >= 995 && dialMs < 2000))
    t.match(retried[0]?.attempts, [{ result: 'lost' }, { result: 'connected' }])
    for (let i = 0; i < 4; i += 1) await ask(port)
    await until('the later ones too', () => records.length === 44)
    const later = records.slice(40).map(({ attempts }) => attempts.length)
    t.strictSame(later, [1, 1, 1, 1], 'it rests: no client after them is sent there')
  })

  t.test('a slow backend wins if the attempts after it fail', async t => {
    // The first step is over at once, the endpoint answers later all the same.
    const { listen, records } = relayFixture(t, make, {
      limits: { dialLadder: [1, 400] },
    })
    const port = await freeTcpPort()
    const silent = await silentBackend(t)
    const alive = await namedBackend(t, 'alive')
    await listen({ binds: at(port), endpoints: [silent, alive.endpoint] })
    const answers = await Promise.all(Array.from({ length: 4 }, () => ask(port)))
    t.ok(answers.every(({ text }) => text === 'alive'))
    await until('all are recorded', () => records.length === 4)
  })

  t.test('when all backends are silent the client is reset after the budget', async t => {
    const { listen, records, relay } = relayFixture(t, make, shortLadder)
    const port = await freeTcpPort()
    const silent = await silentBackend(t)
    await listen({ binds: at(port), endpoints: [silent] })
    const { how } = await ask(port)
    t.equal(how, 'ECONNRESET')
    await until('it is recorded', () => records.length === 1)
    const [record] = records
    t.match(record, { cause: 'sC', endpoint: '', bytesToBackend: 0 })
    t.equal(record?.attempts.length, 3, 'one attempt per step')
    t.ok((record?.dialMs ?? 0) >= 590 && (record?.dialMs ?? 0) < 1000)
    await until('no descriptor is kept', () => carryingFds(relay.stats()) === 0)
  })

  t.test('when all backends refuse the client is reset after the budget', async t => {
    const { listen, records, stats } = relayFixture(t, make, shortLadder)
    const port = await freeTcpPort()
    await listen({ binds: at(port), endpoints: [await dead(), await dead()] })
    const { how } = await ask(port)
    t.equal(how, 'ECONNRESET')
    await until('it is recorded', () => records.length === 1)
    const [record] = records
    t.match(record, {
      cause: 'SC',
      attempts: [{ result: 'refused' }, { result: 'refused' }],
    })
    t.ok((record?.attempts.length ?? 0) < 20, 'it paused between rounds')
    t.strictSame(stats().counters.failed, { SC: 1 })
    t.match(stats().lastError, /ECONNREFUSED from 127\./)
  })

  t.test('a backend that comes back within the budget serves who waited', async t => {
    const { listen, records } = relayFixture(t, make, usualLadder)
    const port = await freeTcpPort()
    const gone = await freeTcpPort()
    await listen({ binds: at(port), endpoints: [endpoint(testHost, gone)] })
    const answer = ask(port)
    await new Promise(resolve => setTimeout(resolve, 300))
    await tcpBackend(t, socket => void socket.end('back'), testHost, gone)
    t.match(await answer, { text: 'back', how: 'end' })
    await until('it is recorded', () => records.length === 1)
    t.match(records[0], { cause: '--' })
  })

  t.test('thousands of endpoints to which there is no way fail one by one', async t => {
    const limits = { dialLadder: [120_000] }
    const { listen, records, stats, relay } = relayFixture(t, make, { limits })
    const port = await freeTcpPort()
    const alive = await namedBackend(t, 'alive')
    // No TCP goes to a group: connect(2) says so before it returns.
    const groups = Array.from({ length: 12_000 }, (_, i) =>
      endpoint(`224.0.${i >> 8}.${i & 255}`, 1),
    )
    const last = { ...alive.endpoint, tier: 1 }
    await listen({ binds: at(port), endpoints: [...groups, last] })
    t.match(await ask(port), { text: 'alive', how: 'end' })
    await until('it is recorded', () => records.length === 1)
    t.equal(records[0]?.attempts.length, groups.length + 1)
    t.equal(stats().counters.dialAttempts, groups.length + 1)
    t.equal(carryingFds(relay.stats()), 0)
  })

  t.test('a client that is reset while dialling ends the dialling', async t => {
    const { listen, records, relay } = relayFixture(t, make, usualLadder)
    const port = await freeTcpPort()
    await listen({ binds: at(port), endpoints: [await silentBackend(t)] })
    const client = dial(t, port)
    await once(client, 'connect')
    await until('it was accepted', () => carryingFds(relay.stats()) > 0)
    reset(client)
    await until('it is recorded', () => records.length === 1, 200)
    t.match(records[0], { cause: 'CC', attempts: [{ result: 'cancelled' }] })
    await until('no descriptor is kept', () => carryingFds(relay.stats()) === 0)
  })

  t.test('a backend that accepts and closes is seen as it is', async t => {
    const { listen, records } = relayFixture(t, make, usualLadder)
    const port = await freeTcpPort()
    const closing = await tcpBackend(t, socket => void socket.end())
    await listen({ binds: at(port), endpoints: [closing.endpoint] })
    t.strictSame(await ask(port), { text: '', how: 'end' })
    await until('it is recorded', () => records.length === 1)
    t.match(records[0], { cause: '--', endpoint: closing.endpoint.key })
  })

  t.test('a backend that accepts and resets is seen as it is', async t => {
    const { listen, records } = relayFixture(t, make, usualLadder)
    const port = await freeTcpPort()
    const resetting = await tcpBackend(t, socket => void setTimeout(reset, 20, socket))
    await listen({ binds: at(port), endpoints: [resetting.endpoint] })
    t.match(await ask(port), { text: '', how: 'ECONNRESET' })
    await until('it is recorded', () => records.length === 1)
    t.equal(records[0]?.cause, 'SD')
  })

  t.test(
    'without endpoints the client is refused, and served when some come',
    async t => {
      const { listen, stats } = relayFixture(t, make, usualLadder)
      const port = await freeTcpPort()
      await listen({ binds: at(port), endpoints: [] })
      t.match(await ask(port), { how: 'ECONNREFUSED' })
      t.match(stats().binds, [{ state: 'closed', reason: 'no endpoints' }])
      const alive = await namedBackend(t, 'alive')
      await listen({ binds: at(port), endpoints: [alive.endpoint] })
      t.match(await ask(port), { text: 'alive' })
      await listen({ binds: at(port), endpoints: [] })
      t.match(await ask(port), { how: 'ECONNREFUSED' })
    },
  )
}
