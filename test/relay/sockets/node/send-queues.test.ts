import { Socket } from 'node:net'
import { endianness } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import {
  readTable,
  rowOf,
  SendQueues,
  tableOf,
  unacknowledged,
} from '../../../../src/relay/sockets/node/send-queues.ts'
import { connection, onLinux, withIpv6 } from '../../../support/connection.ts'
import { testHost } from '../../../support/ports.ts'
import { reset } from '../../../support/reset.ts'
import { until } from '../../../support/until.ts'

const unsent = async (socket: Socket): Promise<number | undefined> => {
  const { localAddress = '', localPort = 0, remoteAddress = '', remotePort = 0 } = socket
  const row = rowOf(localAddress, localPort, remoteAddress, remotePort)
  const table = readTable(tableOf(localAddress))
  return table && unacknowledged(table, row)
}

/** What the kernel tells of sockets, and waiting by it. */
t.test('what the kernel still holds', async t => {
  t.test("the kernel's table of sockets", onLinux, async t => {
    const cases = [
      ['IPv4', testHost, testHost, {}],
      ['IPv6', '::1', '::1', withIpv6],
      ['IPv4 mapped into IPv6', '::', testHost, withIpv6],
    ] as const
    for (const [name, listenOn, dial, options] of cases) {
      t.test(
        `has the rows of both ends of a connection over ${name}`,
        options,
        async t => {
          const { near, far } = await connection(t, listenOn, dial)
          t.equal(await unsent(near), 0)
          t.equal(await unsent(far), 0)
        },
      )
    }

    t.test('tells the bytes that a reader who stalls has not taken', async t => {
      const { near, far } = await connection(t, testHost)
      const sent = 8 << 20
      let got = 0
      near.write(Buffer.alloc(sent))
      await sleep(50)
      const stuck = (await unsent(near)) ?? 0
      t.ok(stuck > 0 && stuck < sent, `${stuck} bytes`)
      far.on('data', chunk => (got += chunk.length)).resume()
      await until('all is read', () => got === sent)
      t.equal(await unsent(near), 0)
    })

    t.test('has no row of a connection that was reset', async t => {
      const { near, far } = await connection(t, testHost)
      const { localPort = 0, remotePort = 0 } = near
      reset(far)
      await until('the reset is seen', () => near.destroyed)
      const table = readTable('/proc/net/tcp')
      const row = rowOf(testHost, localPort, testHost, remotePort)
      t.equal(table && unacknowledged(table, row), undefined)
      t.ok(table)
    })
  })

  const little =
    endianness() === 'LE' ? {} : { skip: 'the bytes of words are the other way round' }
  t.test('addresses are spelt as the kernel does', little, async t => {
    const cases = [
      ['::1', '00000000000000000000000001000000:0050'],
      ['fe80::1%eth0.100', '000080FE000000000000000001000000:0050'],
      ['1:2:3:4:5:6:7:8', '02000100040003000600050008000700:0050'],
      ['1::8', '00000100000000000000000008000000:0050'],
      ['::ffff:1.2.3.4', '0000000000000000FFFF000004030201:0050'],
      ['1.2.3.4', '04030201:0050'],
    ] as const
    for (const [address, spelt] of cases) {
      t.equal(rowOf(address, 80, address, 80), `${spelt} ${spelt}`, address)
    }
  })

  t.test('SendQueues', async t => {
    t.test(
      'know nothing of what was written after they were looked at',
      onLinux,
      async t => {
        const { near } = await connection(t, testHost)
        const queues = new SendQueues()
        t.equal(queues.left(near, performance.now() - 1000), 0)
        t.equal(queues.left(near, performance.now()), 1, 'one read serves for a moment')
        await until(
          'they are looked at again',
          () => queues.left(near, performance.now() - 500) === 0,
        )
      },
    )

    t.test('tell what a reader who stalls has not taken', onLinux, async t => {
      const { near, far } = await connection(t, testHost)
      const queues = new SendQueues()
      let got = 0
      const sent = 1 << 20
      near.write(Buffer.alloc(sent))
      await until('the kernel has it', () => near.writableLength === 0)
      const wroteAt = performance.now()
      const left = (): number => queues.left(near, wroteAt)
      await until('a part is stuck', () => left() > 1)
      far.on('data', chunk => (got += chunk.length)).resume()
      await until('all is delivered', () => left() === 0)
      t.equal(got, sent)
    })

    t.test('have nothing of a socket without a peer', t => {
      t.equal(new SendQueues().left(new Socket(), performance.now()), 0)
      t.end()
    })
  })
})
