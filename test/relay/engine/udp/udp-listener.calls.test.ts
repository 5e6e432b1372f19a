import t, { type Test } from 'tap'
import { errno } from '../../../../src/ffi/errno.ts'
import { msghdr } from '../../../../src/ffi/struct-layout.ts'
import type { Syscalls, NativeMemory } from '../../../../src/ffi/syscalls.ts'
import { linuxRelaySkip } from '../../../support/linux-only.ts'
import { echoUdp, namedUdp } from '../../../support/udp-backend.ts'
import { udpClient } from '../../../support/udp-client.ts'
import { until } from '../../../support/until.ts'
import { udpWorker } from './udp-worker.ts'

type Moving = 'sendmmsg' | 'recvmmsg' | 'write'

/** Answers with an error the first `times` times that the call is made, if `when` says so. */
const failing =
  (name: Moving, code: keyof typeof errno, times = 1, when = (_count: number) => true) =>
  (calls: Syscalls): Partial<Syscalls> => {
    let left = times
    const real: (...args: number[]) => number = calls[name]
    const call = (...args: number[]): number => {
      if (left === 0 || !when(args[2] ?? 0)) return real(...args)
      left -= 1
      return -errno[code]
    }
    return { [name]: call }
  }

/** Where the datagram before, or more than the error, may be behind it, it is tried twice. */
const tries = (code: keyof typeof errno) =>
  code === 'EMSGSIZE' || code === 'EPERM' ? 2 : 1

const setUp = async (t: Test, over?: (calls: Syscalls) => Partial<Syscalls>) => {
  const backend = await echoUdp(t)
  const worker = await udpWorker(t, [backend.endpoint], over)
  const client = await udpClient(t, worker.port)
  return { ...worker, backend, client }
}

t.test('what system calls of UDP may answer', { skip: linuxRelaySkip() }, async t => {
  const lost: readonly (keyof typeof errno)[] = ['EAGAIN', 'EPERM', 'EMSGSIZE', 'ENOBUFS']
  for (const code of lost) {
    t.test(`a datagram that meets ${code} is dropped and counted`, async t => {
      const { client, counters, backend } = await setUp(
        t,
        failing('write', code, tries(code)),
      )
      client.send('lost')
      await until('it is counted', () => counters().datagramsDropped['send-failed'] === 1)
      t.equal(await client.ask('through'), 'through')
      t.strictSame(backend.received.map(String), ['through'])
      t.match(counters(), {
        active: 1,
        datagramsToBackend: 1,
        bytesToBackend: 7,
        datagramsDropped: { 'send-failed': 1 },
      })
    })

    t.test(`so is a reply that meets ${code}`, async t => {
      const { client, counters } = await setUp(t, failing('sendmmsg', code))
      client.send('lost')
      await until('it is counted', () => counters().datagramsDropped['send-failed'] === 1)
      t.equal(await client.ask('through'), 'through')
      t.match(counters(), { datagramsToClient: 1, bytesToClient: 7 })
    })
  }

  for (const name of ['write', 'sendmmsg', 'recvmmsg'] as const) {
    t.test(`a ${name} that was interrupted is made again`, async t => {
      const { client, counters, faults } = await setUp(t, failing(name, 'EINTR', 2))
      t.equal(await client.ask('1'), '1')
      t.equal(await client.ask('2'), '2')
      t.strictSame(counters().datagramsDropped, {})
      t.strictSame(faults, [])
    })
  }

  t.test('a flow that may not send to its endpoint goes to another', async t => {
    let forbidden = false
    const a = await namedUdp(t, 'a')
    const { port, update, counters } = await udpWorker(t, [a.endpoint], calls => ({
      write: (...args) => {
        if (!forbidden) return calls.write(...args)
        forbidden = false
        return -errno.EACCES
      },
    }))
    const client = await udpClient(t, port)
    t.equal(await client.ask('1'), 'a')
    const b = await namedUdp(t, 'b')
    update([a.endpoint, b.endpoint])
    forbidden = true
    t.equal(await client.ask('2'), 'b')
    t.strictSame(b.received.map(String), ['2'])
    t.match(counters(), { accepted: 1, dialAttempts: 2, dialRetries: 1 })
    t.strictSame(counters().datagramsDropped, {})
  })

  t.test('for want of memory nothing is lost', async t => {
    const { client, counters } = await setUp(t, failing('recvmmsg', 'ENOMEM', 3))
    t.equal(await client.ask('1'), '1')
    t.strictSame(counters().datagramsDropped, {})
  })

  t.test('without memory for a socket the datagram is dropped, the flow too', async t => {
    let left = 1
    const { client, counters, held } = await setUp(t, calls => ({
      socket: (...args) => (left-- > 0 ? -errno.ENOBUFS : calls.socket(...args)),
    }))
    client.send('lost')
    await until('it is counted', () => counters().datagramsDropped['no-fd'] === 1)
    t.equal(held(), 0, 'and its descriptor is given back')
    t.equal(await client.ask('again'), 'again')
  })

  t.test('a socket that can not be watched is closed', async t => {
    let left = 1
    const over = (calls: Syscalls): Partial<Syscalls> => {
      let listening = true
      return {
        epollCtl: (...args) => {
          if (listening || left === 0) {
            listening = false
            return calls.epollCtl(...args)
          }
          left -= 1
          return -errno.ENOSPC
        },
      }
    }
    const { client, counters, held } = await setUp(t, over)
    client.send('lost')
    await until('it is counted', () => counters().datagramsDropped['no-fd'] === 1)
    t.equal(held(), 0)
    t.equal(await client.ask('again'), 'again')
  })

  t.test('bursts that the kernel does not cut up go one by one', async t => {
    // EINVAL is what it says of datagrams longer than the path's MTU.
    let refused = 0
    const { client, backend, counters } = await setUp(t, calls => {
      const known: NativeMemory[] = []
      const isCut = (header: number): boolean =>
        known.some(({ address, view }) => {
          const at = header - address
          return (
            at >= 0 &&
            at < view.byteLength &&
            view.getUint32(at + msghdr.iovLength, true) > 1
          )
        })
      return {
        allocate: bytes => {
          const memory = calls.allocate(bytes)
          known.push(memory)
          return memory
        },
        sendmmsg: (fd, headers, count, flags) => {
          if (!isCut(headers)) return calls.sendmmsg(fd, headers, count, flags)
          refused += 1
          return -errno.EINVAL
        },
      }
    })
    t.equal(await client.ask('open'), 'open')
    const burst = Array.from({ length: 20 }, (_, i) => Buffer.alloc(100, i))
    for (const datagram of burst) client.send(datagram)
    await until('all are back', () => client.received.length === 21)
    for (const { received } of [backend, client]) {
      t.ok(Buffer.concat(received.slice(1)).equals(Buffer.concat(burst)))
    }
    t.equal(refused, 2, 'it was tried once in each direction')
    t.match(counters(), { datagramsToBackend: 21, datagramsToClient: 21 })
    t.strictSame(counters().datagramsDropped, {})
  })

  t.test(
    'a burst in the middle of which the endpoint dies goes on with another',
    async t => {
      const a = await namedUdp(t, 'a')
      const { port, update, counters } = await udpWorker(t, [a.endpoint])
      const client = await udpClient(t, port)
      t.equal(await client.ask('1'), 'a')
      const b = await namedUdp(t, 'b')
      update([a.endpoint, b.endpoint])
      await a.close()
      for (const length of [1, 2, 3, 4, 5]) client.send('x'.repeat(length))
      await until('the last is there', () => b.received.at(-1)?.length === 5)
      const lengths = b.received.map(one => one.length)
      t.strictSame(lengths, [1, 2, 3, 4, 5].slice(-lengths.length), 'in order, once each')
      t.match(counters(), { active: 1, datagramsDropped: {} })
    },
  )
})
