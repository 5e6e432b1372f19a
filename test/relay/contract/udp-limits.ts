import { carryingFds } from '../../support/relay-fixture.ts'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { runTool } from '../../../src/kernel/run-tool.ts'
import type { ListenerStats } from '../../../src/relay/relay.ts'
import { freeUdpPort, testHost } from '../../support/ports.ts'
import {
  type RelayModule,
  type RelayProcess,
  relayProcess,
} from '../../support/relay-process.ts'
import { namedUdp } from '../../support/udp-backend.ts'
import { udpClient } from '../../support/udp-client.ts'
import { until } from '../../support/until.ts'

const at = (port: number) => [{ address: testHost, port }]

const onlyListener = async ({ stats }: RelayProcess): Promise<ListenerStats> => {
  const [listener] = (await stats()).listeners
  if (listener === undefined) throw new Error('no listener')
  return listener
}

/** Before the system has no descriptor left; the relay's own cap is at half of its limit. */
const flowsThatFit = 12

/** What many flows leave behind, and what becomes of flows when descriptors run out. */
export const udpLimitsContract = (t: Test, module: RelayModule, openFiles = 48): void => {
  t.test('2000 flows that were opened and have expired leave nothing', async t => {
    const relay = await relayProcess(t, module, {
      // On a busy machine an answer may be long in coming.
      limits: { udpReplyTimeout: 30_000, udpTimeout: 500 },
    })
    const port = await freeUdpPort()
    const a = await namedUdp(t, 'a')
    await relay.listen({ protocol: 'UDP', binds: at(port), endpoints: [a.endpoint] })
    const flows = async (): Promise<number> => (await onlyListener(relay)).counters.active
    const ended = (): Promise<void> =>
      until('all flows have ended', async () => (await flows()) === 0)
    // From an address per batch: a port that is used again would be an old flow's.
    const batch = async (number: number, size: number): Promise<string[]> => {
      const from = testHost.replace(/^127\.\d+/, `127.${10 + number}`)
      const clients = await Promise.all(
        Array.from({ length: size }, () => udpClient(t, port, testHost, from)),
      )
      const answers = await Promise.all(clients.map(client => client.ask('hello')))
      await Promise.all(clients.map(client => client.close()))
      return answers
    }
    let most = 0
    const answers: string[] = []
    const batches = async (first: number, last: number): Promise<void> => {
      for (let number = first; number <= last; number += 1) {
        answers.push(...(await batch(number, 50)))
        most = Math.max(most, await flows())
      }
      await ended()
    }
    await batches(1, 20)
    // What is made but once, and tables that grow with the flows of a moment, have been made.
    const before = await relay.usage()
    await batches(21, 60)
    t.equal(answers.filter(answer => answer === 'a').length, 3000, 'all are served')
    const after = await relay.usage()
    t.ok(most > 100, `${most} were open at a time`)
    t.equal((await onlyListener(relay)).counters.accepted, 3000)
    t.equal(carryingFds(await relay.stats()), 0)
    t.equal(after.fds, before.fds, 'no descriptor')
    t.equal(after.handles, before.handles, 'no handle, no timer')
    const more = after.held - before.held
    t.ok(more < 1 << 19, `${more} bytes more held`)
  })

  t.test('when the system has no descriptor left, flows give theirs', async t => {
    // Nothing is kept back, so that the system runs out before the relay's own count does.
    const relay = await relayProcess(t, module, {
      limits: { reservedFds: 0, udpTimeout: 1000, udpReplyTimeout: 1000 },
      openFiles,
    })
    const port = await freeUdpPort()
    const a = await namedUdp(t, 'a')
    await relay.listen({ protocol: 'UDP', binds: at(port), endpoints: [a.endpoint] })
    const before = await relay.usage()
    // How many it needs for itself depends on the version of Node.
    const most = before.fds + flowsThatFit
    await runTool('prlimit', [`--pid=${relay.pid}`, `--nofile=${most}:${most}`])
    const clients = await Promise.all(
      Array.from({ length: 150 }, () => udpClient(t, port)),
    )
    let again = 0
    for (const client of clients) {
      client.send('hello')
      await Promise.race([
        until('an answer', () => client.received.length > 0),
        sleep(30),
      ])
      if (client.received.length > 0) continue
      t.equal(await client.ask('again'), 'a', 'who asks once more is answered')
      again += 1
    }
    // On a busy machine the answer to the first may only have been late: then there are two.
    const answers = clients.reduce((sum, { received }) => sum + received.length, 0)
    const dropped = clients.length + again - answers
    t.ok(relay.alive())
    t.ok(dropped > 0, `${dropped} datagrams met with no descriptor`)
    const { counters } = await onlyListener(relay)
    t.strictSame(counters.datagramsDropped, { 'no-fd': dropped })
    t.ok(counters.active < 100, `${counters.active} flows are open`)
    await until('all flows have ended', async () => {
      return carryingFds(await relay.stats()) === 0
    })
    const after = await relay.usage()
    t.equal(after.fds, before.fds, 'and all are given back')
    t.equal(after.handles, before.handles)
  })
}
