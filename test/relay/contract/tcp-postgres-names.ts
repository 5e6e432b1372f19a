import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { rangesOf } from '../../../src/util/address-ranges.ts'
import { helloFor } from '../../support/client-hello.ts'
import { freeTcpPort, testHost } from '../../support/ports.ts'
import {
  carryingFds,
  type ListenerSpec,
  type MakeRelay,
  relayFixture,
} from '../../support/relay-fixture.ts'
import { dial, tcpBackend } from '../../support/tcp-backend.ts'
import { until } from '../../support/until.ts'

const sslRequest = Buffer.from('0000000804d2162f', 'hex')
const gssRequest = Buffer.from('0000000804d21630', 'hex')

/** Clients of PostgreSQL, that ask for TLS before they say their server's name. */
export const tcpPostgresNamesContract = (t: Test, make: MakeRelay): void => {
  /** Answers a request for TLS, and then what it has heard by its name, its length and what came before. */
  const server = (t: Test, name: string, answer: (socket: Socket) => void) =>
    tcpBackend(t, socket => {
      let heard = Buffer.alloc(0)
      let before = ''
      socket.on('data', data => {
        heard = Buffer.concat([heard, data])
        const at = heard.indexOf(sslRequest)
        if (at < 0 || before !== '') return
        before = heard.subarray(0, at).toString() || '-'
        const isSole = heard.length === at + sslRequest.length
        heard = Buffer.alloc(0)
        if (isSole) answer(socket)
        else socket.end('too soon')
      })
      socket.on('end', () => socket.end(`${name} ${heard.length} ${before.trim()}`))
    })
  const takes = (socket: Socket): void => void socket.write('S')

  const setUp = async (
    t: Test,
    answers: readonly ((socket: Socket) => void)[],
    over: ListenerSpec = {},
  ) => {
    const fixture = relayFixture(t, make, { limits: { dialLadder: [1500] } })
    const port = await freeTcpPort()
    const named = await Promise.all(answers.map((one, i) => server(t, `db${i}`, one)))
    const others = await server(t, 'others', takes)
    const endpoints = [...named, others].map(one => one.endpoint)
    const pool = {
      names: ['db.example'],
      endpoints: named.map(one => one.endpoint.key),
    }
    await fixture.listen({
      binds: [{ address: testHost, port }],
      endpoints,
      serverNames: { pools: [pool], others: [others.endpoint.key] },
      retry: { earlyClose: true, replay: 4096 },
      ...over,
    })
    return { ...fixture, port, named }
  }

  /** Says each piece when all before it was answered; all that it got, and how it ended. */
  const talk = async (
    t: Test,
    port: number,
    pieces: readonly (readonly [say: Buffer, answered: string])[],
  ): Promise<string> => {
    const client = dial(t, port)
    let text = ''
    let fate = ''
    client.on('data', data => (text += data.toString()))
    client.on('error', ({ code = '' }: NodeJS.ErrnoException) => (fate = ` ${code}`))
    const closed = new Promise(resolve => client.once('close', resolve))
    for (const [say, answered] of pieces) {
      await until('it was answered', () => text === answered)
      client.write(say)
    }
    await sleep(100)
    client.end()
    await closed
    return text + fate
  }

  t.test('its hello comes whole behind a request of Usher’s own', async t => {
    const { port, records, stats, relay } = await setUp(t, [takes])
    const hello = await helloFor(t, 'db.example')
    const whole = `db0 ${hello.length} -`
    const cut = 3
    const asked = [
      [
        [sslRequest, ''],
        [hello, 'S'],
      ],
      [
        [gssRequest, ''],
        [sslRequest, 'N'],
        [hello, 'NS'],
      ],
      [
        [sslRequest.subarray(0, cut), ''],
        [sslRequest.subarray(cut), ''],
        [hello, 'S'],
      ],
      [[Buffer.concat([sslRequest, hello]), '']],
      [
        [sslRequest, ''],
        [hello.subarray(0, 9), 'S'],
        [hello.subarray(9), 'S'],
      ],
    ] as const
    for (const pieces of asked) {
      const answers = pieces[0][0] === gssRequest ? 'NS' : 'S'
      t.equal(await talk(t, port, pieces), answers + whole)
    }
    t.equal(await talk(t, port, [[hello, '']]), `db0 ${hello.length} `, 'as it was')
    const other = await helloFor(t, 'other.example')
    t.equal(
      await talk(t, port, [
        [sslRequest, ''],
        [other, 'S'],
      ]),
      `Sothers ${other.length} -`,
    )
    const startup = Buffer.from('000000080003000000', 'hex')
    t.equal(
      await talk(t, port, [
        [gssRequest, ''],
        [startup, 'N'],
      ]),
      `Nothers ${startup.length} `,
      'without encryption',
    )
    await until('all are recorded', () => records.length === 8)
    t.strictSame(stats().counters.failed, {})
    t.equal(records[0]?.bytesToBackend, hello.length)
    t.equal(records[0]?.bytesToClient, whole.length)
    t.equal(stats().endpoints[0]?.failures, 0)
    await until('no descriptor is kept', () => carryingFds(relay.stats()) === 0)
  })

  const unfit = {
    'says no': (socket: Socket) => void socket.write('N'),
    'has an error': (socket: Socket) => void socket.end('Enot now'),
    ends: (socket: Socket) => void socket.end(),
    resets: (socket: Socket) => void socket.resetAndDestroy(),
  } as const
  for (const [kind, answer] of Object.entries(unfit)) {
    t.test(`one that ${kind} is followed by another, or by a reset`, async t => {
      const { port, records, relay } = await setUp(t, [answer, takes])
      const hello = await helloFor(t, 'db.example')
      for (let i = 0; i < 3; i += 1)
        t.equal(
          await talk(t, port, [
            [sslRequest, ''],
            [hello, 'S'],
          ]),
          `Sdb1 ${hello.length} -`,
        )
      const alone = await setUp(t, [answer])
      const pieces = [
        [sslRequest, ''],
        [hello, 'S'],
      ] as const
      t.equal(await talk(t, alone.port, pieces), 'S ECONNRESET')
      await until('it is recorded', () => alone.records.length === 1)
      t.match(alone.records[0], {
        // The last may still be asked when the time to dial is over.
        cause: /^[sS]C$/,
        detail: / to a request for TLS from|ECONN/,
      })
      await until('all are recorded', () => records.length === 3)
      await until('no descriptor is kept', () => carryingFds(relay.stats()) === 0)
    })
  }

  t.test('a client that leaves while it is asked leaves nothing behind', async t => {
    const { port, records, relay, named } = await setUp(t, [() => {}])
    const hello = await helloFor(t, 'db.example')
    for (const leave of ['resetAndDestroy', 'destroy'] as const) {
      const client = dial(t, port).on('error', () => {})
      client.write(Buffer.concat([sslRequest, hello]))
      const asked = named[0]?.accepted ?? 0
      await until('it is asked', () => (named[0]?.accepted ?? 0) > asked)
      client[leave]()
    }
    for (const socket of named[0]?.sockets ?? []) socket.destroy()
    await until('both are recorded', () => records.length === 2)
    await until('no descriptor is kept', () => carryingFds(relay.stats()) === 0)
  })

  t.test('between headers of the PROXY protocol', async t => {
    const over: ListenerSpec = {
      proxyProtocol: 'v1',
      acceptProxy: rangesOf(['127.0.0.0/8']),
    }
    const { port } = await setUp(t, [takes], over)
    const hello = await helloFor(t, 'db.example')
    const header = Buffer.from('PROXY TCP4 192.0.2.7 192.0.2.9 1234 5432\r\n')
    const pieces = [
      [Buffer.concat([header, sslRequest]), ''],
      [hello, 'S'],
    ] as const
    t.equal(
      await talk(t, port, pieces),
      `Sdb0 ${hello.length} ${header.toString().trim()}`,
    )
  })
}
