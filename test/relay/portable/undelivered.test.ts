import { execFileSync } from 'node:child_process'
import { closeSync, openSync, promises as fs } from 'node:fs'
import type { Socket } from 'node:net'
import { endianness } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import {
  readTable,
  rowOf,
  tableOf,
  unacknowledged,
} from '../../../src/relay/portable/undelivered.ts'
import { Undelivered } from '../../../src/relay/portable/undelivered.ts'
import { systemClock } from '../../../src/util/clock.ts'
import { connection, onLinux, withIpv6 } from '../../support/connection.ts'
import { fakeUndelivered } from '../../support/fake-undelivered.ts'
import { testHost } from '../../support/ports.ts'
import { reset } from '../../support/reset.ts'
import { until } from '../../support/until.ts'

const unsent = async (socket: Socket): Promise<number | undefined> => {
  const { localAddress = '', localPort = 0, remoteAddress = '', remotePort = 0 } = socket
  const row = rowOf(localAddress, localPort, remoteAddress, remotePort)
  return unacknowledged(await readTable(tableOf(localAddress)), row)
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
      const table = await readTable('/proc/net/tcp')
      const row = rowOf(testHost, localPort, testHost, remotePort)
      t.equal(unacknowledged(table, row), undefined)
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

  t.test('Undelivered', async t => {
    t.test('is done at the first look when all is acknowledged', async t => {
      const { wait, socket, done, advance, reads, clock } = fakeUndelivered()
      wait(socket(1))
      t.strictSame(done, [])
      await advance(1)
      t.strictSame(done, [1])
      t.equal(clock.waiting, 0)
      t.match(reads, [{ path: '/proc/net/tcp' }])
    })

    t.test('looks again until it is, every 20 ms', async t => {
      const { wait, socket, done, advance, reads, state } = fakeUndelivered()
      wait(socket(1, 100))
      await advance(500)
      t.strictSame(done, [])
      t.strictSame(
        reads.slice(0, 3).map(({ at }) => at),
        [1, 21, 41],
      )
      state.unsent.set(1, 0)
      await advance(20)
      t.strictSame(done, [1])
    })

    t.test('waits for what Node itself still holds', async t => {
      const { wait, socket, done, advance } = fakeUndelivered()
      const one = socket(1)
      one.writableLength = 1
      wait(one)
      await advance(500)
      t.strictSame(done, [])
      one.writableLength = 0
      await advance(20)
      t.strictSame(done, [1])
    })

    t.test('trusts no table read before Node handed everything over', async t => {
      const { wait, socket, done, advance, state } = fakeUndelivered()
      state.readMs = 10
      const flushing = socket(1)
      flushing.writableLength = 1
      wait(flushing)
      wait(socket(2))
      await advance(5)
      flushing.writableLength = 0
      state.unsent.set(1, 100)
      wait(socket(3, 100))
      await advance(1000)
      t.strictSame(done, [2])
    })

    t.test('is over at the deadline, and at once when the socket is closed', async t => {
      const { wait, socket, done, advance } = fakeUndelivered()
      const closing = socket(2, 100)
      wait(socket(1, 100), 300)
      wait(closing)
      await advance(100)
      closing.destroyed = true
      await advance(20)
      t.strictSame(done, [2])
      await advance(170)
      t.strictSame(done, [2])
      await advance(40)
      t.strictSame(done, [2, 1])
    })

    t.test('is done at once for a socket without a peer', async t => {
      const { wait, socket, done, clock } = fakeUndelivered()
      wait({ ...socket(1), localAddress: undefined })
      t.strictSame(done, [1])
      t.equal(clock.waiting, 0)
    })

    t.test('waits a blind 100 ms when the table cannot be read', async t => {
      const { wait, socket, done, advance, state } = fakeUndelivered()
      state.broken = true
      wait(socket(1))
      await advance(99)
      t.strictSame(done, [])
      await advance(25)
      t.strictSame(done, [1])
    })

    t.test('looks once for all who wait', async t => {
      const { wait, socket, done, advance, reads } = fakeUndelivered()
      for (let port = 1; port <= 50; port += 1) wait(socket(port, port % 2))
      await advance(21)
      t.equal(done.length, 25)
      t.equal(reads.length, 2)
    })

    t.test('spends at most a fifth of the time on reading', async t => {
      const { wait, socket, advance, reads, state } = fakeUndelivered()
      state.readMs = 50
      wait(socket(1, 100))
      await advance(700)
      t.strictSame(
        reads.map(({ at }) => at),
        [1, 251, 501],
      )
    })

    // Each trip to node's threads may take half a second on a host that is short of processors.
    t.test('looks without the threads that read files', onLinux, async t => {
      const path = `${t.testdir({})}/fifo`
      execFileSync('mkfifo', [path])
      // As many as node has: open waits until somebody writes.
      const waiting = [1, 2, 3, 4].map(() => fs.open(path, 'r'))
      const { near, far } = await connection(t, testHost)
      near.write('x')
      const delivered = new Promise<string>(resolve =>
        new Undelivered(systemClock).wait(near, 20_000, () => resolve('delivered')),
      )
      far.resume()
      const result = await Promise.race([
        delivered,
        sleep(5000, 'no look', { ref: false }),
      ])
      const writer = openSync(path, 'w')
      for (const handle of await Promise.all(waiting)) await handle.close()
      closeSync(writer)
      t.equal(result, 'delivered')
    })

    t.test('lets a reset follow every byte on a real connection', onLinux, async t => {
      const { near, far } = await connection(t, testHost)
      const sent = 4 << 20
      let got = 0
      let how = ''
      far.on('data', chunk => (got += chunk.length))
      far.on('error', (error: NodeJS.ErrnoException) => (how = error.code ?? ''))
      near.write(Buffer.alloc(sent))
      let done = false
      new Undelivered(systemClock).wait(near, 20_000, () => {
        done = true
        reset(near)
      })
      await sleep(100)
      t.notOk(done, 'not while the reader stalls')
      far.resume()
      await until('the reset is seen', () => how !== '')
      t.equal(got, sent)
      t.equal(how, 'ECONNRESET')
    })
  })
})
