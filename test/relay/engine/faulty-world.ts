import type { Test } from 'tap'
import type { Bind } from '../../../src/relay/relay.ts'
import { Random } from '../../fault-run/random.ts'
import { makeVisit, type Outcome } from '../../soak/client.ts'
import { type Guestbook, startServer } from '../../soak/server.ts'
import { startUdpServer, udpVisit } from '../../soak/udp-echo.ts'
import { type Descriptors, openDescriptors, untilQuiet } from '../../soak/vital-signs.ts'
import type { Visit, Way } from '../../soak/visit.ts'
import { freeTcpPort, freeUdpPort, testHost } from '../../support/ports.ts'
import type { ListenerSpec } from '../../support/relay-fixture.ts'
import { relayProcess, type RelayProcess } from '../../support/relay-process.ts'

/** Small and bulky, both ways, and ends of every kind: splice(2) and pipes have their turn. */
const kinds: readonly (readonly [Way, number, number])[] = [
  ['plain', 0, 0],
  ['plain', 1000, 1000],
  ['plain', 20, 2_000_000],
  ['plain', 2_000_000, 20],
  ['plain', 700_000, 700_000],
  ['server-ends-first', 3000, 400_000],
  ['slow-client', 100, 300_000],
  ['slow-server', 300_000, 100],
  ['client-resets', 50_000, 1000],
  ['server-resets', 50_000, 1000],
  ['plain', 10, 10],
  ['plain', 5000, 0],
]

/**
 * Flows end soon, so that it can be seen that nothing is left of them. Reads of the small
 * buffer are full whatever the other processes are doing, so that bulk is spliced always.
 */
const limits = { udpTimeout: 300, udpReplyTimeout: 300, connectionBuffer: 4096 }

export interface FaultyWorld {
  readonly relay: RelayProcess
  readonly pid: number
  readonly tcp: Bind
  /** Applies its listeners and `further` ones, which lead to the same servers. */
  readonly listen: (...further: readonly Bind[]) => Promise<void>
  /** A connection of each kind at the same time, or some UDP flows; all outcomes. */
  readonly traffic: (protocol: 'TCP' | 'UDP', bind?: Bind) => Promise<readonly Outcome[]>
  /** Connections without bulk. */
  readonly small: () => Promise<unknown>
  /** Waits until nothing is open; gives the descriptors of the process. */
  readonly quiet: () => Promise<Descriptors>
}

/** A Linux relay with one worker in a process of its own, in front of two servers each. */
export const faultyWorld = async (t: Test): Promise<FaultyWorld> => {
  const file = new URL('../../soak/relays.ts', import.meta.url)
  const relay = await relayProcess(t, { file, exported: 'faultyRelay' }, { limits })
  const book: Guestbook = new Map()
  const servers = [await startServer(book), await startServer(book)]
  const echoes = [await startUdpServer(), await startUdpServer()]
  t.teardown(async () => {
    await Promise.all([...servers, ...echoes].map(({ close }) => close()))
  })
  const tcp = { address: testHost, port: await freeTcpPort() }
  const udp = { address: testHost, port: await freeUdpPort() }
  const specOf = (bind: Bind, protocol: 'TCP' | 'UDP'): ListenerSpec => ({
    id: `${protocol} ${bind.port}`,
    protocol,
    binds: [bind],
    endpoints: (protocol === 'TCP' ? servers : echoes).map(({ endpoint }) => endpoint),
  })
  const listen: FaultyWorld['listen'] = (...further) =>
    relay.listen(
      specOf(udp, 'UDP'),
      ...[tcp, ...further].map(bind => specOf(bind, 'TCP')),
    )
  await listen()
  const random = new Random(1)
  let seed = 1
  const visits = (bind: Bind): Promise<Outcome>[] =>
    kinds.map(([way, up, down]) => {
      seed += 2
      const visit: Visit = { seed, up, down, way, cutAt: Math.floor(up / 2) }
      return makeVisit(visit, bind, book)
    })
  const small = (): Promise<unknown> =>
    Promise.all(
      Array.from({ length: 60 }, () => {
        seed += 2
        return makeVisit({ seed, up: 500, down: 500, way: 'plain', cutAt: 0 }, tcp, book)
      }),
    )
  const flows = (): Promise<Outcome>[] => kinds.map(() => udpVisit(random, udp))
  const traffic: FaultyWorld['traffic'] = (protocol, bind = tcp) =>
    Promise.all(protocol === 'TCP' ? visits(bind) : flows())
  const { pid } = relay
  const quiet = async (): Promise<Descriptors> => {
    await untilQuiet(relay)
    return openDescriptors(pid)
  }
  return { relay, pid, tcp, listen, traffic, small, quiet }
}
