import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import type { Test } from 'tap'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import { type MakeRelay, relayFixture } from '../../support/relay-fixture.ts'
import { reset } from '../../support/reset.ts'
import { namedEcho, type TcpBackend } from '../../support/tcp-backend.ts'
import { until } from '../../support/until.ts'

/** Where there are but `ports` source ports, which are counted by destination (EADDRNOTAVAIL). */
export const tcpSourcePortsContract = (t: Test, make: MakeRelay, ports: number): void => {
  /** At a port that is none of the few either. */
  const named = async (name: string): Promise<TcpBackend> =>
    namedEcho(t, name, testHost, await freeTcpPort())

  const setUp = async (t: Test) => {
    const fixture = relayFixture(t, make, { limits: { dialLadder: [100, 2000] } })
    const port = await freeTcpPort()
    const full = await named('full')
    const binds = [{ address: testHost, port }]
    await fixture.listen({ binds, endpoints: [full.endpoint] })
    /** From a port that is none of the few; `word`: the first that it hears, or how it ended. */
    const come = async (): Promise<{ client: Socket; word: Promise<string> }> => {
      const localPort = await freeTcpPort()
      const client = connect({ host: testHost, port, localAddress: testHost, localPort })
      t.teardown(() => client.destroy())
      const word = new Promise<string>(resolve => {
        client.on('data', data => resolve(data.toString()))
        client.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? ''))
      })
      return { client, word }
    }
    const holders: Socket[] = []
    while (holders.length < ports) {
      const { client, word } = await come()
      t.equal(await word, 'full')
      holders.push(client)
    }
    const blamed = () => fixture.stats().endpoints[0]
    return { ...fixture, binds, full: full.endpoint, holders, come, blamed }
  }

  for (const tier of [0, 1]) {
    t.test(`others of tier ${tier} are tried at once, and nobody is blamed`, async t => {
      const { listen, binds, full, come, records, blamed } = await setUp(t)
      const other = { ...(await named('other')).endpoint, tier }
      await listen({ binds, endpoints: [{ ...full, tier: 0 }, other] })
      for (let i = 0; i < 2; i += 1) {
        const { client, word } = await come()
        t.equal(await word, 'other')
        client.destroy()
      }
      await until('both are recorded', () => records.length === 2)
      const attempts = records.flatMap(record => record.attempts)
      const failed = attempts.filter(({ result }) => result === 'EADDRNOTAVAIL')
      t.equal(failed.length, 2, 'it does not rest')
      t.equal(attempts.length, failed.length + 2)
      t.match(blamed(), { failures: 0, coolingDown: false })
    })
  }

  t.test('one that waits for a port is served when there is one', async t => {
    const { come, holders, records, blamed, allFailed } = await setUp(t)
    const { client, word } = await come()
    await once(client, 'connect')
    const [first] = holders
    if (first === undefined) throw new Error('no holder')
    setTimeout(() => reset(first), 300)
    t.equal(await word, 'full')
    const last = await come()
    t.equal(await last.word, 'ECONNRESET')
    await until('it is recorded', () => records.some(({ cause }) => cause === 'RC'))
    t.match(blamed(), { failures: 0, coolingDown: false })
    t.strictSame(allFailed, [], 'it says nothing of the endpoints')
  })
}
