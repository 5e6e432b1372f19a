import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { nodePortOf, serviceNamed, services } from '../e2e/capture/services.ts'
import { vipOf } from '../e2e/capture/vips.ts'
import { addressOf, backendPort } from '../support/net/addresses.ts'
import type { Conversation } from '../support/net/agent.ts'
import type { Agents } from '../support/net/cluster-agents.ts'
import { until } from '../support/until.ts'
import type { Machine } from './machine.ts'
import { writeServices } from './usher.ts'

const plain = serviceNamed('plain')
/** Nobody else's: connections that ended are remembered for two minutes (TIME_WAIT). */
const leaver = { ...plain, name: 'leaver', index: 40 } as const
const { address, port } = vipOf.ClusterIP(leaver, 'IPv4')
const removed = 'backend-2'
const destination = `${addressOf[removed].IPv4}:${backendPort}`
const server = { TCP: `-t ${address}:${port}`, UDP: `-u ${address}:${port}` }
/** Connections that were reset are remembered for 10 s, and looked for once a minute at least. */
const stepMs = 150_000

/**
 * An endpoint that is removed keeps its open connections and gets no new ones (weight 0)
 * until the last has ended. A Usher of ipvs mode runs; `wrr` finds each endpoint.
 */
export const endsGracefully = async (
  t: Test,
  machine: Machine,
  agents: Agents,
): Promise<void> => {
  const client = agents['pod-1']
  const dial = (protocol: 'TCP' | 'UDP') =>
    client.dial({ protocol, address, port }, 20_000)
  const all = (): Promise<string> => machine.run('ipvsadm', '-S', '-n')
  const weightOf = async (protocol: 'TCP' | 'UDP'): Promise<string> => {
    const line = (await all())
      .split('\n')
      .find(each => each.startsWith(`-a ${server[protocol]} -r ${destination} `))
    return line === undefined ? 'gone' : (/-w (\d+)/.exec(line)?.[1] ?? '')
  }
  await writeServices(machine, [...services, leaver])
  await untilInMachine('it is there', async () => (await weightOf('TCP')) === '1')
  const open = await openTo(() => client.open({ protocol: 'TCP', address, port }))
  const backends = leaver.backends.filter(name => name !== removed)
  await writeServices(machine, [...services, { ...leaver, backends }])
  await untilInMachine('it gets no more', async () => (await weightOf('TCP')) !== '1')
  t.equal(await weightOf('TCP'), '0', 'weight 0 while it has a connection')
  t.equal(await weightOf('UDP'), 'gone', 'at once for UDP')
  const names = new Set<string>()
  for (let round = 0; round < 6; round += 1) {
    names.add((await dial('TCP')).backend)
    names.add((await dial('UDP')).backend)
  }
  t.strictSame([...names].toSorted(), backends, 'new clients get the others')
  t.equal(await open.ask(), removed, 'the open connection goes on')
  await open.close()
  await untilInMachine('it is gone', async () => (await weightOf('TCP')) === 'gone')
  await writeServices(machine, services)
  // Sets are the last to be changed.
  const isGone = async (): Promise<boolean> =>
    !(await machine.run('ipset', 'save')).includes(` ${nodePortOf(leaver)}\n`)
  await untilInMachine('its Service is gone', isGone)
}

/** Each look is a program that the machine has to start; it has other things to do. */
const untilInMachine = (what: string, isSo: () => Promise<boolean>): Promise<void> =>
  until(
    what,
    async () => {
      if (await isSo()) return true
      await sleep(2000)
      return false
    },
    stepMs,
  )

/** The first connection that got there; the others end. */
const openTo = async (open: () => Promise<Conversation>): Promise<Conversation> => {
  for (let round = 0; round < 12; round += 1) {
    const conversation = await open()
    if ((await conversation.ask()) === removed) return conversation
    await conversation.close()
  }
  throw new Error(`no connection got to ${removed}`)
}
