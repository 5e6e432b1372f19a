import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { RelayListener } from '../../../src/relay/relay.ts'
import { linuxRelaySkip } from '../../support/linux-only.ts'
import { makeLinuxRelayWith, mortalWorker } from '../../support/linux-relay.ts'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import { carryingFds, listenerSpec, relayFixture } from '../../support/relay-fixture.ts'
import { ask, dial, echoBackend } from '../../support/tcp-backend.ts'
import { echoUdp } from '../../support/udp-backend.ts'
import { udpClient } from '../../support/udp-client.ts'
import { until } from '../../support/until.ts'

const deaths = 12
const workers = 3

/** What listeners share memory for, or not. */
const variants: readonly Partial<RelayListener>[] = [
  {},
  { name: 'another' },
  { limits: { routeConnections: 1000 } },
  { affinityMs: 60_000 },
  { capacity: { maxConnections: 1000, queueMs: 1000, mostQueued: 10 } },
  { retry: { earlyClose: true, replay: 100, holdMs: 1000 } },
]

/** Threads that die at any moment, while listeners come, change and go, and clients too. */
t.test('generations of workers', { skip: linuxRelaySkip() }, async t => {
  const { program, tell } = mortalWorker(t, 'throw new Error("told to die")')
  const make = makeLinuxRelayWith({ workers, workerProgram: program })
  const { relay, faults } = relayFixture(t, make)
  const [tcp, udp] = [await echoBackend(t), await echoUdp(t)]
  const ports = await Promise.all(Array.from({ length: 8 }, () => freeTcpPort()))
  const specOf = (i: number, variant: number): RelayListener => {
    const protocol = i % 4 === 3 ? 'UDP' : 'TCP'
    return listenerSpec({
      id: `${i}`,
      protocol,
      binds: [{ address: testHost, port: ports[i] ?? 0 }],
      endpoints: [protocol === 'UDP' ? udp.endpoint : tcp.endpoint],
      ...variants[protocol === 'UDP' ? 0 : variant % variants.length],
    })
  }
  const chance = (below: number): number => Math.floor(Math.random() * below)
  await relay.apply(ports.map((_, i) => specOf(i, 0)))
  const descriptors = readdirSync('/proc/self/fd').length

  const over = new AbortController()
  const changing = async (): Promise<void> => {
    for (
      let before: readonly RelayListener[] = [];
      !over.signal.aborted;
      await sleep(chance(20))
    ) {
      const wanted = ports.flatMap((_, i) => {
        const kept = before.find(({ id }) => id === `${i}`)
        if (i > 0 && chance(4) === 0) return []
        return kept !== undefined && chance(2) === 0 ? kept : specOf(i, chance(100))
      })
      before = wanted
      await relay.apply(wanted)
    }
  }
  const coming = async (): Promise<void> => {
    while (!over.signal.aborted) {
      const client = dial(t, ports[chance(ports.length)] ?? 0).on('error', () => {})
      client.write('hello')
      setTimeout(() => client.destroy(), chance(200))
      await sleep(chance(5))
    }
  }
  let accepted = 0
  const counting = async (): Promise<void> => {
    for (; !over.signal.aborted; await sleep(chance(50))) {
      for (const { id, counters } of relay.stats().listeners) {
        // The others come and go, and count from 0 again.
        if (id === '0' && counters.accepted < accepted)
          t.fail(`${counters.accepted} after ${accepted}`)
        if (id === '0') ({ accepted } = counters)
        for (const gauge of ['active', 'held', 'queued'] as const)
          if (counters[gauge] < 0) t.fail(`${counters[gauge]} ${gauge}`)
      }
    }
  }
  const running = [changing(), coming(), counting()]
  for (let i = 1; i <= deaths; i += 1) {
    await sleep(chance(300))
    await tell(1 + chance(workers))
    await until(`death ${i}`, () => faults.length >= i)
  }
  over.abort()
  await Promise.all(running)
  t.ok(accepted > 0, `${accepted} of the one that stays`)
  for (const { message } of faults) t.match(message, 'told to die')

  const wanted = ports.map((_, i) => specOf(i, i))
  await relay.apply(wanted)
  for (const [i, { protocol }] of wanted.entries()) {
    const port = ports[i] ?? 0
    if (protocol === 'UDP')
      t.equal(await (await udpClient(t, port)).ask('hello'), 'hello')
    else
      for (let n = 0; n < 2 * workers; n += 1) {
        const client = dial(t, port)
        client.write('hello')
        t.equal(String((await once(client, 'data'))[0]), 'hello')
        client.destroy()
      }
  }
  const sum = (of: 'active' | 'held' | 'queued'): number =>
    [...relay.stats().listeners].reduce(
      (all, one) => all + (one.protocol === 'TCP' ? one.counters[of] : 0),
      0,
    )
  await until('no connection is left', () => sum('active') === 0)
  t.strictSame([sum('held'), sum('queued')], [0, 0])
  await relay.apply([])
  await until('no listener is left', () => [...relay.stats().listeners].length === 0)
  for (const port of ports.slice(0, 3))
    t.match(await ask(port), { how: 'ECONNREFUSED' }, 'nobody listens')
  await until('no descriptor is kept', () => carryingFds(relay.stats()) === 0)
  const more = readdirSync('/proc/self/fd').length - descriptors
  t.ok(more < 20, `${more} more descriptors are open`)
})
