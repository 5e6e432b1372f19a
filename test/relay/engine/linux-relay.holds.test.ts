import type { Socket } from 'node:net'
import t, { type Test } from 'tap'
import { linuxRelaySkip } from '../../support/linux-only.ts'
import { makeLinuxRelayWith, mortalWorker } from '../../support/linux-relay.ts'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import { type MakeRelay, relayFixture } from '../../support/relay-fixture.ts'
import { ask, dial, firstWord, namedEcho } from '../../support/tcp-backend.ts'
import { until } from '../../support/until.ts'

/** A listener without an endpoint, of whose clients so many may wait. */
const setUp = async (t: Test, make: MakeRelay, mostHeld: number) => {
  // A client waits once its dial has come to nothing, and that goes fast.
  const fixture = relayFixture(t, make, { limits: { dialLadder: [50, 50] } })
  const port = await freeTcpPort()
  const retry = { earlyClose: false, replay: 0, holdMs: 60_000, mostHeld }
  await fixture.listen({ binds: [{ address: testHost, port }], retry })
  const open = new Set<Socket>()
  const come = (count: number): void => {
    for (let i = 0; i < count; i += 1) {
      const client = dial(t, port)
      open.add(client)
      client.on('error', () => {}).on('close', () => open.delete(client))
    }
  }
  const counters = () => fixture.stats().counters
  return { ...fixture, open, come, counters }
}

/** Workers share the places of clients that wait. */
t.test('clients that wait, of all workers', { skip: linuxRelaySkip() }, async t => {
  t.test('so many wait as may, whichever workers they come to', async t => {
    const make = makeLinuxRelayWith({ workers: 4 })
    const { open, come, counters } = await setUp(t, make, 2)
    come(20)
    await until('18 are refused', () => counters().holdRefused === 18 && open.size === 2)
    t.equal(counters().held, 2)
    for (const client of open) client.destroy()
    await until('both have left', () => counters().held === 0)
    come(20)
    await until('18 of the others too', () => counters().holdRefused === 36)
    t.equal(counters().held, 2)
  })

  t.test('one worker may have all places', async t => {
    const make = makeLinuxRelayWith({ workers: 4 })
    const { come, counters, open } = await setUp(t, make, 30)
    come(30)
    await until('all wait', () => counters().held === 30)
    t.match(counters(), { holdRefused: 0 })
    t.equal(open.size, 30)
  })

  t.test('places of workers that are no more are free again', async t => {
    const { program, tell } = mortalWorker(t, 'throw new Error("told to die")')
    const make = makeLinuxRelayWith({ workers: 2, workerProgram: program })
    const { open, come, counters, faults, relay } = await setUp(t, make, 16)
    come(16)
    await until('all wait', () => counters().held === 16)
    await tell(1)
    await until('it has died', () => faults.length === 1)
    await until('all clients are reset', () => open.size === 0)
    t.equal(counters().held, 0)
    come(40)
    await until('16 of the others wait', () => counters().holdRefused === 24)
    t.equal(counters().held, 16)
    await relay.apply([])
    for (const client of open) client.destroy()
    await until('nothing is left', () => [...relay.stats().listeners].length === 0)
    t.equal(relay.stats().fds.used, 0)
  })

  t.test('what takes the place of a worker that dies knows of a pause', async t => {
    const { program, tell } = mortalWorker(t, 'throw new Error("told to die")')
    const make = makeLinuxRelayWith({ workers: 1, workerProgram: program })
    const { listen, faults, stats } = relayFixture(t, make)
    const port = await freeTcpPort()
    const binds = [{ address: testHost, port }]
    const backend = await namedEcho(t, 'alive')
    const endpoints = [backend.endpoint]
    await listen({ binds, endpoints, paused: true })
    const held = () => stats().counters.held
    const lost = ask(port)
    await until('it waits', () => held() === 1)
    await tell(1)
    t.match(await lost, { text: '', how: 'ECONNRESET' })
    await until('it has died', () => faults.length === 1)
    const next = firstWord(port)
    await until('the next client waits', () => held() === 1)
    t.equal(backend.accepted, 0)
    await listen({ binds, endpoints })
    t.equal(await next, 'alive')
  })
})
