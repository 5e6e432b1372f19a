import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { connect } from 'node:net'
import t, { type Test } from 'tap'
import { linuxRelaySkip } from '../../../support/linux-only.ts'
import type { RelayProtocol } from '../../../../src/model/service.ts'
import type { KeepAliveLimits } from '../../../../src/relay/engine/keep-alive.ts'
import { LinuxListening } from '../../../../src/relay/sockets/linux/listening-sockets.ts'
import { Steering } from '../../../../src/relay/engine/main/steering.ts'
import * as c from '../../../../src/ffi/constants.ts'
import { errno } from '../../../../src/ffi/errno.ts'
import { sockaddrSize } from '../../../../src/ffi/struct-layout.ts'
import { loadSyscalls, type Syscalls } from '../../../../src/ffi/syscalls.ts'
import { familyOf } from '../../../../src/util/ip.ts'
import { onLinux, withIpv6 } from '../../../support/connection.ts'
import { freePort, testHost } from '../../../support/ports.ts'
import { until } from '../../../support/until.ts'

const families = [
  ['IPv4', testHost, onLinux],
  ['IPv6', '::1', withIpv6],
] as const

const setUp = (t: Test, limits: KeepAliveLimits = {}) => {
  const calls = loadSyscalls()
  const listening = new LinuxListening(calls, limits)
  const open = async (
    protocol: RelayProtocol,
    address: string,
    port: number,
    count: number,
  ) => {
    const { fds } = await listening.open(protocol, { address, port }, count)
    t.teardown(() => fds.forEach(fd => calls.close(fd)))
    return fds
  }
  return { calls, listening, open }
}

const sharing = async (t: Test, protocol: RelayProtocol, host: string): Promise<void> => {
  t.test('the kernel shares clients out among two', async t => {
    const { calls, open } = setUp(t)
    const port = await freePort(host)
    const fds = await open(protocol, host, port, 2)
    const counts = await visits(t, calls, protocol, fds, 60, () =>
      send(t, protocol, host, port),
    )
    t.ok(
      counts.every(count => count > 5),
      `${counts.join(' and ')} came`,
    )
  })

  t.test('a port that is taken is refused, however many are wanted', async t => {
    const { open } = setUp(t)
    const port = await freePort(host)
    await open(protocol, host, port, 2)
    for (const count of [1, 2, 3]) {
      await t.rejects(open(protocol, host, port, count), { code: 'EADDRINUSE' })
    }
  })

  t.test('what can not be opened whole is not left half open', async t => {
    const { calls } = setUp(t)
    const port = await freePort(host)
    const openFds = new Set<number>()
    let binds = 0
    const failing: Syscalls = {
      ...calls,
      socket: (...args) => {
        const fd = calls.socket(...args)
        openFds.add(fd)
        return fd
      },
      close: fd => {
        openFds.delete(fd)
        return calls.close(fd)
      },
      bind: (...args) => (++binds === 3 ? -errno.ENOBUFS : calls.bind(...args)),
    }
    const listening = new LinuxListening(failing, {})
    const bind = { address: host, port }
    await t.rejects(listening.open(protocol, bind, 3), { code: 'ENOBUFS' })
    t.equal(openFds.size, 0)
    const { fds } = await listening.open(protocol, bind, 1)
    fds.forEach(fd => calls.close(fd))
  })

  for (const sockets of [2, 3]) {
    t.test(`steering gives a client to the same of ${sockets}`, async t => {
      const { calls, open } = setUp(t)
      const port = await freePort(host)
      const fds = await open(protocol, host, port, sockets)
      const steering = new Steering(calls)
      const family = familyOf(host) ?? 'IPv4'
      const go = (from: string): Promise<number[]> =>
        visits(t, calls, protocol, fds, 20, () => send(t, protocol, host, port, from))
      const first = fds[0] ?? -1
      t.equal(steering.byClient(first, family, sockets), 0)
      const clients = family === 'IPv4' ? loopbacks : ['::1']
      const taken: number[] = []
      for (const client of clients) {
        const counts = await go(client)
        t.ok(counts.includes(20), `${client}: ${counts.join(', ')}`)
        taken.push(counts.indexOf(20))
        t.strictSame(await go(client), counts, 'and so once more')
      }
      if (family === 'IPv4') t.equal(new Set(taken).size, sockets, 'each has clients')
      for (const index of fds.keys()) {
        t.equal(steering.toOne(first, index), 0)
        for (const client of clients.slice(0, 3))
          t.equal((await go(client)).indexOf(20), index, `all to ${index}`)
      }
      t.equal(steering.release(first), 0)
      const [client = ''] = clients
      const counts = await go(client)
      t.ok(counts.filter(count => count > 0).length > 1, 'until it is switched off')
    })
  }
}

const loopbacks = Array.from({ length: 16 }, (_, i) => `127.0.7.${i + 1}`)

const send = async (
  t: Test,
  protocol: RelayProtocol,
  host: string,
  port: number,
  from = host,
): Promise<void> => {
  if (protocol === 'TCP') {
    const socket = connect({ port, host, localAddress: from })
    t.teardown(() => socket.destroy())
    socket.on('error', () => {})
    await once(socket, 'connect')
    return
  }
  const socket = createSocket(host.includes(':') ? 'udp6' : 'udp4')
  t.teardown(() => socket.close())
  socket.bind(0, from)
  await once(socket, 'listening')
  await new Promise(resolve => socket.send('x', port, host, resolve))
}

/** How many of `count` visits came to each socket. */
const visits = async (
  t: Test,
  calls: Syscalls,
  protocol: RelayProtocol,
  fds: readonly number[],
  count: number,
  visit: () => Promise<void>,
): Promise<number[]> => {
  const memory = calls.allocate(sockaddrSize + 8)
  const length = memory.address + sockaddrSize
  const take = (fd: number): boolean => {
    if (protocol === 'UDP') return calls.read(fd, memory.address, 8) > 0
    memory.view.setInt32(sockaddrSize, sockaddrSize, true)
    const accepted = calls.accept(fd, memory.address, length, 0)
    if (accepted >= 0) calls.close(accepted)
    return accepted >= 0
  }
  const counts = fds.map(() => 0)
  await Promise.all(Array.from({ length: count }, visit))
  await until('all came', () => {
    for (const [i, fd] of fds.entries()) while (take(fd)) counts[i] = (counts[i] ?? 0) + 1
    return counts.reduce((sum, one) => sum + one, 0) === count
  })
  return counts
}

const inheritance = async (t: Test): Promise<void> => {
  const { calls, open } = setUp(t, {
    tcpKeepalive: 7000,
    tcpKeepaliveInterval: 2000,
    tcpUserTimeout: 9000,
  })
  const port = await freePort()
  const [listening = -1] = await open('TCP', testHost, port, 1)
  const client = connect(port, testHost)
  t.teardown(() => client.destroy())
  await once(client, 'connect')
  const memory = calls.allocate(sockaddrSize + 8)
  memory.view.setInt32(sockaddrSize, sockaddrSize, true)
  const fd = calls.accept(listening, memory.address, memory.address + sockaddrSize, 0)
  t.teardown(() => calls.close(fd))
  const option = (level: number, name: number): number => {
    memory.view.setInt32(8, 4, true)
    const { address } = memory
    assert.equal(calls.getsockopt(fd, level, name, address, address + 8), 0)
    return memory.view.getInt32(0, true)
  }
  t.equal(option(c.IPPROTO_TCP, c.TCP_NODELAY), 1)
  t.equal(option(c.SOL_SOCKET, c.SO_KEEPALIVE), 1)
  t.equal(option(c.IPPROTO_TCP, c.TCP_KEEPIDLE), 7)
  t.equal(option(c.IPPROTO_TCP, c.TCP_KEEPINTVL), 2)
  t.equal(option(c.IPPROTO_TCP, c.TCP_USER_TIMEOUT), 9000)
}

const packetInfo = async (t: Test): Promise<void> => {
  const { calls, open } = setUp(t)
  const port = await freePort()
  const memory = calls.allocate(16)
  const isOn = async (address: string, level: number, name: number): Promise<number> => {
    const [fd = -1] = await open('UDP', address, port, 1)
    memory.view.setInt32(8, 4, true)
    calls.getsockopt(fd, level, name, memory.address, memory.address + 8)
    const value = memory.view.getInt32(0, true)
    return value
  }
  t.equal(await isOn(testHost, c.IPPROTO_IP, c.IP_PKTINFO), 0)
  t.equal(await isOn('::', c.IPPROTO_IPV6, c.IPV6_RECVPKTINFO), 1)
  const elsewhere = await freePort('0.0.0.0')
  const [fd = -1] = await open('UDP', '0.0.0.0', elsewhere, 1)
  memory.view.setInt32(8, 4, true)
  calls.getsockopt(fd, c.IPPROTO_IP, c.IP_PKTINFO, memory.address, memory.address + 8)
  t.equal(memory.view.getInt32(0, true), 1)
}

/** Sockets that workers share, opened by the real kernel. */
t.test('sockets', { skip: linuxRelaySkip() }, async t => {
  for (const [family, host, options] of families) {
    for (const protocol of ['TCP', 'UDP'] as const) {
      t.test(`${protocol} over ${family}`, options, t => sharing(t, protocol, host))
    }
  }
  t.test('accepted connections have what the listening socket has', onLinux, t =>
    inheritance(t),
  )
  t.test('clients of a wildcard are told apart by where they wrote to', onLinux, t =>
    packetInfo(t),
  )
})
