import type { Test } from 'tap'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import { type MakeRelay, relayFixture } from '../../support/relay-fixture.ts'
import { tcpBackend } from '../../support/tcp-backend.ts'
import { until } from '../../support/until.ts'
import { MSG_OOB, urgentClient } from '../../support/urgent-client.ts'

/** Urgent data (tcp(7)) makes reads stop short, which must not pass for the end of it. */
export const urgentContract = (t: Test, make: MakeRelay): void => {
  t.test('what comes around urgent data is passed on', async t => {
    const { listen } = relayFixture(t, make)
    const port = await freeTcpPort()
    let heard = ''
    const backend = await tcpBackend(
      t,
      socket => void socket.on('data', data => (heard += data.toString())),
    )
    await listen({ binds: [{ address: testHost, port }], endpoints: [backend.endpoint] })
    const send = urgentClient(t, port)
    for (let i = 0; i < 20; i += 1) {
      send('before', 0)
      send('!', MSG_OOB)
      send('after', 0)
    }
    // Out of band, the mark itself may be taken out of the stream, as by any reader.
    const inBand = (): string => heard.replaceAll('!', '')
    await until('all came', () => inBand() === 'beforeafter'.repeat(20))
    t.equal(inBand(), 'beforeafter'.repeat(20))
  })

  t.test('it is said again to another endpoint like all that is kept', async t => {
    const { listen } = relayFixture(t, make)
    const port = await freeTcpPort()
    const heard = { early: '', good: '' }
    const [early, good] = await Promise.all([
      tcpBackend(t, socket => {
        socket.on('data', data => {
          heard.early += data.toString()
          if (heard.early.includes('last')) socket.end()
        })
      }),
      tcpBackend(
        t,
        socket => void socket.on('data', data => (heard.good += data.toString())),
      ),
    ])
    const endpoints = [early.endpoint, { ...good.endpoint, tier: 1 }]
    const retry = { earlyClose: true, replay: 1000 }
    await listen({ binds: [{ address: testHost, port }], endpoints, retry })
    const send = urgentClient(t, port)
    send('before', 0)
    send('!', MSG_OOB)
    send('last', 0)
    const inBand = (text: string): string => text.replaceAll('!', '')
    await until('it came to the other', () => inBand(heard.good) === 'beforelast')
    t.equal(inBand(heard.early), 'beforelast')
    send('more', 0)
    await until('it goes on', () => inBand(heard.good) === 'beforelastmore')
  })
}
