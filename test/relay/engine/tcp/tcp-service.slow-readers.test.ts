import type { Socket } from 'node:net'
import t, { type Test } from 'tap'
import { linuxRelaySkip } from '../../../support/linux-only.ts'
import { readBulk, sendBulk } from '../../../support/bulk.ts'
import { makeLinuxRelay } from '../../../support/linux-relay.ts'
import { freeTcpPort, testHost } from '../../../support/ports.ts'
import { relayFixture } from '../../../support/relay-fixture.ts'
import { dial, tcpBackend } from '../../../support/tcp-backend.ts'
import { until } from '../../../support/until.ts'

const mib = 1 << 20
const stalled = 40
const connectionBuffer = 64 * 1024
const answerBytes = 8 * mib

/** Reads a first piece and then nothing, until it is resumed. */
const stallingReader = (socket: Socket): ReturnType<typeof readBulk> => {
  const reader = readBulk(socket)
  socket.once('data', () => socket.pause())
  return reader
}

const stillness = async (figure: () => number): Promise<void> => {
  let before = -1
  await until('it stands still', async () => {
    const now = figure()
    const isSame = now === before
    before = now
    await new Promise(resolve => setTimeout(resolve, 300))
    return isSame
  })
}

/** What slow readers cost: `connectionBuffer` a direction, and `heldBytes` all together. */
t.test('slow readers', { skip: linuxRelaySkip() }, async t => {
  const setUp = async (t: Test, heldBytes: number) => {
    const limits = { connectionBuffer, heldBytes }
    const { listen, relay, records } = relayFixture(t, makeLinuxRelay, { limits })
    const port = await freeTcpPort()
    const backend = await tcpBackend(t, socket => void sendBulk(socket, answerBytes))
    await listen({ binds: [{ address: testHost, port }], endpoints: [backend.endpoint] })
    const held = (): number => relay.stats().workers?.[0]?.heldBytes ?? -1
    const readers = Array.from({ length: stalled }, () => {
      const socket = dial(t, port)
      return { socket, reader: stallingReader(socket) }
    })
    await until('all have begun', () => readers.every(one => one.reader.bytes() > 0))
    await stillness(held)
    return { port, records, held, readers }
  }

  const goOn = async (
    t: Test,
    readers: readonly { socket: Socket; reader: ReturnType<typeof readBulk> }[],
  ): Promise<void> => {
    for (const { socket } of readers) socket.resume()
    await until('all saw the end', () => readers.every(one => one.reader.ended()), 60_000)
    t.ok(readers.every(({ reader }) => reader.bytes() === answerBytes))
    t.ok(
      readers.every(({ reader }) => reader.firstWrong() === -1),
      'every byte is right',
    )
  }

  t.test('a slow reader holds no more than its buffer', async t => {
    const { held, readers } = await setUp(t, 1024 * mib)
    t.ok(held() > 0 && held() <= stalled * connectionBuffer, `${held()} bytes are held`)
    await goOn(t, readers)
    for (const { socket } of readers) socket.destroy()
    await until('nothing is held', () => held() === 0)
  })

  t.test('many slow readers hold no more than there is, and others go on', async t => {
    const { port, held, readers } = await setUp(t, mib)
    t.ok(held() <= mib + connectionBuffer, `${held()} bytes are held`)
    const quick = dial(t, port)
    const reader = readBulk(quick)
    await until('who reads is served', reader.ended)
    t.equal(reader.bytes(), answerBytes)
    t.equal(reader.firstWrong(), -1)
    await goOn(t, readers)
    for (const { socket } of [...readers, { socket: quick }]) socket.destroy()
    await until('nothing is held', () => held() === 0)
  })
})
