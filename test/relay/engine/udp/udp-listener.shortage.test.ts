import t from 'tap'
import { errno } from '../../../../src/ffi/errno.ts'
import type { Syscalls } from '../../../../src/ffi/syscalls.ts'
import { linuxRelaySkip } from '../../../support/linux-only.ts'
import { echoUdp, namedUdp, udpBackend } from '../../../support/udp-backend.ts'
import { udpClient } from '../../../support/udp-client.ts'
import { until } from '../../../support/until.ts'
import { udpWorker } from './udp-worker.ts'

t.test('what passes, and what does not, of UDP', { skip: linuxRelaySkip() }, async t => {
  for (const code of ['ENOMEM', 'ENOBUFS'] as const) {
    t.test(`${code} at a listening socket is waited for`, async t => {
      const backend = await echoUdp(t)
      const failures = { left: 5, calls: 0 }
      const turns = { count: 0 }
      const { port, faults, counters } = await udpWorker(
        t,
        [backend.endpoint],
        calls => ({
          epollWait: (...args) => {
            turns.count += 1
            return calls.epollWait(...args)
          },
          recvmmsg: (...args) => {
            if (failures.left <= 0) return calls.recvmmsg(...args)
            failures.left -= 1
            failures.calls += 1
            return -errno[code]
          },
        }),
      )
      const before = turns.count
      const client = await udpClient(t, port)
      t.equal(await client.ask('1'), '1')
      t.equal(failures.calls, 5)
      t.ok(turns.count - before > 10, 'not in every turn')
      t.strictSame(faults, [])
      t.strictSame(counters().datagramsDropped, {})
    })
  }

  t.test(
    'a listening socket that stays unreadable is told of, and not often',
    async t => {
      const backend = await echoUdp(t)
      let calls = 0
      const { port, faults } = await udpWorker(t, [backend.endpoint], () => ({
        recvmmsg: () => {
          calls += 1
          return -errno.EIO
        },
      }))
      const client = await udpClient(t, port)
      client.send('1')
      await until('a second of tries is over', () => calls > 130)
      t.equal(faults.length, 1)
      t.match(faults[0], { message: 'recvmmsg of a UDP socket: EIO' })
    },
  )

  t.test(
    "a flow's socket without memory is waited for, and may end meanwhile",
    async t => {
      const backend = await echoUdp(t)
      const failures = { isOn: false, calls: 0 }
      const { port, update, counters } = await udpWorker(
        t,
        [backend.endpoint],
        calls => ({
          recvmmsg: (fd, headers, count, flags) => {
            if (!failures.isOn || count === 64) {
              return calls.recvmmsg(fd, headers, count, flags)
            }
            failures.calls += 1
            return -errno.ENOMEM
          },
        }),
      )
      const client = await udpClient(t, port)
      t.equal(await client.ask('1'), '1')
      failures.isOn = true
      client.send('2')
      await until('it was tried', () => failures.calls >= 3)
      failures.isOn = false
      await until('it came through', () => client.received.length === 2)
      failures.isOn = true
      const { calls } = failures
      client.send('3')
      await until('it was tried', () => failures.calls > calls)
      update([])
      failures.isOn = false
      update([backend.endpoint])
      t.equal(await client.ask('4'), '4', 'by another flow')
      t.equal(counters().active, 1)
    },
  )

  t.test('a listening socket that can not be watched is watched later', async t => {
    const backend = await echoUdp(t)
    let left = 2
    const { port, faults } = await udpWorker(t, [backend.endpoint], calls => ({
      epollCtl: (...args) => {
        left -= 1
        return left >= 0 ? -errno.ENOMEM : calls.epollCtl(...args)
      },
    }))
    const client = await udpClient(t, port)
    t.equal(await client.ask('1'), '1')
    t.equal(faults.length, 1)
  })

  t.test('without a way to the endpoint nothing comes twice', async t => {
    const [a, b] = [await namedUdp(t, 'a'), await namedUdp(t, 'b')]
    let hasWay = true
    const { port, update } = await udpWorker(t, [a.endpoint], calls => ({
      write: (...args) => {
        if (hasWay) return calls.write(...args)
        hasWay = true
        return -errno.ENETUNREACH
      },
    }))
    const client = await udpClient(t, port)
    t.equal(await client.ask('1'), 'a')
    update([a.endpoint, b.endpoint])
    hasWay = false
    t.equal(await client.ask('2'), 'b')
    t.strictSame(a.received.map(String), ['1'])
    t.strictSame(b.received.map(String), ['2'])
  })

  t.test('what was heard of the datagram before costs no other', async t => {
    const backend = await echoUdp(t)
    let isHeard = false
    const { port, counters } = await udpWorker(t, [backend.endpoint], calls => ({
      write: (...args) => {
        if (!isHeard) return calls.write(...args)
        isHeard = false
        return -errno.EMSGSIZE
      },
    }))
    const client = await udpClient(t, port)
    t.equal(await client.ask('1'), '1')
    isHeard = true
    t.equal(await client.ask('2'), '2')
    t.strictSame(counters().datagramsDropped, { 'send-failed': 1 }, 'that one')
  })

  t.test('a datagram that could not be sent is not the one to be sent again', async t => {
    const [a, b] = [await namedUdp(t, 'a'), await namedUdp(t, 'b')]
    const errors: (keyof typeof errno)[] = []
    const over = (calls: Syscalls): Partial<Syscalls> => ({
      write: (...args) => {
        const error = errors.shift()
        return error === undefined ? calls.write(...args) : -errno[error]
      },
    })
    const { port, update, counters } = await udpWorker(t, [a.endpoint], over)
    const client = await udpClient(t, port)
    t.equal(await client.ask('1'), 'a')
    update([a.endpoint, b.endpoint])
    errors.push('ENOBUFS', 'ECONNREFUSED')
    client.send('2')
    await until('it is counted', () => counters().datagramsDropped['send-failed'] === 1)
    client.send('3')
    await until('both are there', () => b.received.length === 2)
    t.strictSame(b.received.map(String), ['1', '3'])
  })

  t.test('what a firewall of this host rejects goes to another endpoint', async t => {
    // REJECT in OUTPUT: EPERM to the call itself, and the refusal to the next.
    const [a, b] = [await namedUdp(t, 'a'), await namedUdp(t, 'b')]
    const errors: (keyof typeof errno)[] = []
    const { port, update, counters } = await udpWorker(t, [a.endpoint], calls => ({
      write: (...args) => {
        const error = errors.shift()
        return error === undefined ? calls.write(...args) : -errno[error]
      },
    }))
    const client = await udpClient(t, port)
    t.equal(await client.ask('1'), 'a')
    update([a.endpoint, b.endpoint])
    errors.push('EPERM', 'ECONNREFUSED')
    t.equal(await client.ask('2'), 'b')
    t.strictSame(b.received.map(String), ['2'], 'and what had come before does not')
    t.match(counters(), { datagramsToBackend: 2, datagramsDropped: {} })
  })

  t.test('replies that lacked memory leave together again', async t => {
    const waiting: (() => void)[] = []
    const backend = await udpBackend(t, (message, reply) => {
      waiting.push(() => reply(message))
      // All at once, so that they have neighbours.
      if (waiting.length === 10) for (const answer of waiting.splice(0)) answer()
    })
    let headers = 0
    let fails = 1
    const { port, counters } = await udpWorker(t, [backend.endpoint], calls => ({
      sendmmsg: (fd, address, count, flags) => {
        headers += count
        fails -= 1
        return fails >= 0 ? -errno.ENOBUFS : calls.sendmmsg(fd, address, count, flags)
      },
    }))
    const client = await udpClient(t, port)
    // One by one, so that on their way there each goes by itself.
    const burst = async (): Promise<void> => {
      const had = backend.received.length
      for (let i = 1; i <= 10; i += 1) {
        client.send('x')
        await until('it is there', () => backend.received.length === had + i)
      }
    }
    await burst()
    await until('all are accounted for', () => {
      const { datagramsToClient, datagramsDropped } = counters()
      return datagramsToClient + (datagramsDropped['send-failed'] ?? 0) === 10
    })
    const had = client.received.length
    headers = 0
    await burst()
    await until('all are back', () => client.received.length >= had + 10)
    t.ok(headers < 6, 'as one or few')
  })
})
