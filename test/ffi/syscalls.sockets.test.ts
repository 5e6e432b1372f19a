import t from 'tap'
import * as c from '../../src/ffi/constants.ts'
import { errno } from '../../src/ffi/errno.ts'
import { readSockaddr, sockaddrLength } from '../../src/relay/engine/sockaddr.ts'
import { tcpInfo } from '../../src/ffi/struct-layout.ts'
import { linuxRelaySkip } from '../support/linux-only.ts'
import { until } from '../support/until.ts'
import { Bench, flags } from '../relay/engine/calls-bench.ts'

const skip = linuxRelaySkip()
const stream = c.SOCK_STREAM

for (const address of ['127.0.0.1', '::1']) {
  t.test(
    `a connection over ${address} has the addresses that it was made with`,
    { skip },
    async t => {
      const bench = new Bench(t)
      const { client, server, at } = bench.connection(address)
      t.equal(at.address, address)
      t.ok(at.port > 0)
      t.strictSame(bench.peerAddress(client), at)
      t.strictSame(bench.ownAddress(server), at)
      t.strictSame(bench.peerAddress(server), bench.ownAddress(client))
      t.equal(bench.write(client, 'over there'), 10)
      t.equal(bench.read(server), 'over there')
    },
  )
}

t.test('accept4 gives the address of the client, or EAGAIN', { skip }, async t => {
  const bench = new Bench(t)
  const { calls } = bench
  const { fd: listener, at } = bench.bound(stream, '127.0.0.1')
  t.equal(calls.accept(listener, 0, 0, flags), -errno.EINVAL, 'before listen')
  t.equal(calls.listen(listener, 8), 0)
  t.equal(calls.accept(listener, 0, 0, flags), -errno.EAGAIN)
  const [client, started] = bench.connect(stream, at)
  t.equal(started, -errno.EINPROGRESS)
  const memory = calls.allocate(40)
  memory.words[8] = sockaddrLength.IPv6
  bench.keep(calls.accept(listener, memory.address, memory.address + 32, flags))
  t.equal(memory.words[8], sockaddrLength.IPv4)
  t.strictSame(readSockaddr(memory, 0), bench.ownAddress(client))
})

t.test('socket, bind, listen and connect say what is wrong', { skip }, async t => {
  const bench = new Bench(t)
  const { calls, memory } = bench
  t.equal(calls.socket(9999, stream, 0), -errno.EAFNOSUPPORT)
  const { fd, at } = bench.bound(stream, '127.0.0.1')
  t.equal(calls.bind(fd, memory.address, 2), -errno.EINVAL)
  const [, refused] = bench.connect(stream, at)
  t.ok(refused === -errno.ECONNREFUSED || refused === -errno.EINPROGRESS)
  const [datagrams] = bench.connect(c.SOCK_DGRAM, at)
  t.equal(calls.listen(datagrams, 1), -errno.EOPNOTSUPP)
  t.equal(calls.getpeername(fd, memory.address, memory.address + 64), -errno.ENOTCONN)
  t.equal(calls.getsockname(-1, memory.address, memory.address + 64), -errno.EBADF)
})

t.test('nobody listens: SO_ERROR says so, and forgets it', { skip }, async t => {
  const bench = new Bench(t)
  const { fd, at } = bench.bound(stream, '127.0.0.1')
  bench.close(fd)
  const [client] = bench.connect(stream, at)
  let error = 0
  await until('the refusal', () => {
    error = bench.option(client, c.SOL_SOCKET, c.SO_ERROR)
    return error !== 0
  })
  t.equal(error, errno.ECONNREFUSED)
  t.equal(bench.option(client, c.SOL_SOCKET, c.SO_ERROR), 0)
})

t.test('shutdown ends one direction', { skip }, async t => {
  const bench = new Bench(t)
  const { client, server } = bench.connection()
  t.equal(bench.calls.shutdown(client, c.SHUT_WR), 0)
  t.equal(bench.read(server), '')
  t.equal(bench.write(server, 'still'), 5)
  t.equal(bench.read(client), 'still')
  const { fd } = bench.bound(stream, '127.0.0.1')
  t.equal(bench.calls.shutdown(fd, c.SHUT_WR), -errno.ENOTCONN)
})

t.test('options are what they were set to', { skip }, async t => {
  const bench = new Bench(t)
  const { client } = bench.connection()
  const options: readonly (readonly [level: number, name: number, value: number])[] = [
    [c.SOL_SOCKET, c.SO_REUSEADDR, 1],
    [c.SOL_SOCKET, c.SO_REUSEPORT, 1],
    [c.SOL_SOCKET, c.SO_KEEPALIVE, 1],
    [c.IPPROTO_TCP, c.TCP_NODELAY, 1],
    [c.IPPROTO_TCP, c.TCP_KEEPIDLE, 15],
    [c.IPPROTO_TCP, c.TCP_KEEPINTVL, 2],
    [c.IPPROTO_TCP, c.TCP_KEEPCNT, 3],
    [c.IPPROTO_TCP, c.TCP_USER_TIMEOUT, 30_000],
  ]
  for (const [level, name, value] of options) {
    t.equal(bench.setOption(client, level, name, value), 0, `${level} ${name}`)
  }
  // Not at once: one that is taken for another has the other's value by now.
  for (const [level, name, value] of options) {
    t.equal(bench.option(client, level, name), value, `${level} ${name}`)
  }
  // The kernel doubles sizes for its own needs (socket(7)).
  t.equal(bench.setOption(client, c.SOL_SOCKET, c.SO_SNDBUF, 8192), 0)
  t.equal(bench.option(client, c.SOL_SOCKET, c.SO_SNDBUF), 16_384)
  t.equal(bench.setOption(client, c.SOL_SOCKET, c.SO_RCVBUF, 8192), 0)
  t.equal(bench.option(client, c.SOL_SOCKET, c.SO_RCVBUF), 16_384)
  t.equal(bench.setOption(client, c.SOL_SOCKET, 9999, 1), -errno.ENOPROTOOPT)
  t.equal(bench.option(client, c.SOL_SOCKET, 9999), -errno.ENOPROTOOPT)
  t.equal(bench.option(-1, c.SOL_SOCKET, c.SO_ERROR), -errno.EBADF)
})

t.test('a socket that listens on IPv6 only leaves IPv4 to others', { skip }, async t => {
  const bench = new Bench(t)
  const fd = bench.keep(bench.calls.socket(c.AF_INET6, stream | flags, 0))
  t.equal(bench.setOption(fd, c.IPPROTO_IPV6, c.IPV6_V6ONLY, 1), 0)
  t.equal(bench.option(fd, c.IPPROTO_IPV6, c.IPV6_V6ONLY), 1)
})

t.test('connections inherit TCP_NODELAY from who listens', { skip }, async t => {
  const bench = new Bench(t)
  const { fd: listener, at } = bench.bound(stream, '127.0.0.1')
  bench.setOption(listener, c.IPPROTO_TCP, c.TCP_NODELAY, 1)
  bench.calls.listen(listener, 8)
  const [client] = bench.connect(stream, at)
  const server = bench.keep(bench.calls.accept(listener, 0, 0, flags))
  t.equal(bench.option(server, c.IPPROTO_TCP, c.TCP_NODELAY), 1)
  t.equal(bench.option(client, c.IPPROTO_TCP, c.TCP_NODELAY), 0)
})

t.test('a close with SO_LINGER of 0 seconds resets the peer', { skip }, async t => {
  const bench = new Bench(t)
  const { calls, memory } = bench
  const { client, server } = bench.connection()
  memory.words[0] = 1
  memory.words[1] = 0
  t.equal(calls.setsockopt(client, c.SOL_SOCKET, c.SO_LINGER, memory.address, 8), 0)
  bench.close(client)
  t.equal(bench.read(server), -errno.ECONNRESET)
})

t.test('SIOCOUTQ counts what the peer has not taken', { skip }, async t => {
  const bench = new Bench(t)
  const { calls } = bench
  const { client, server } = bench.connection()
  bench.setOption(server, c.SOL_SOCKET, c.SO_RCVBUF, 4096)
  const much = calls.allocate(4_000_000)
  const sent = calls.write(client, much.address, much.bytes.length)
  t.ok(sent > 0)
  const { memory } = bench
  memory.words[0] = -1
  t.equal(calls.ioctl(client, c.SIOCOUTQ, memory.address), 0)
  const queued = memory.words[0] ?? -1
  t.ok(queued > 0 && queued <= sent, `${queued} of ${sent}`)
  t.equal(calls.ioctl(client, 0x7fff, memory.address), -errno.ENOTTY)
})

t.test('TCP_INFO knows the round-trip time, and of no retransmits', { skip }, async t => {
  const bench = new Bench(t)
  const { calls } = bench
  const { client } = bench.connection()
  const info = calls.allocate(tcpInfo.size + 8)
  info.words[tcpInfo.size / 4] = tcpInfo.size
  const at = info.address
  t.equal(calls.getsockopt(client, c.IPPROTO_TCP, c.TCP_INFO, at, at + tcpInfo.size), 0)
  t.equal(info.words[tcpInfo.size / 4], tcpInfo.size, 'no shorter than it is read')
  const rtt = info.view.getUint32(tcpInfo.rtt, true)
  t.ok(rtt > 0 && rtt < 1_000_000, `${rtt} us over loopback`)
  // After the first sample the variance, which comes next, is half of it (RFC 6298).
  const variance = info.view.getUint32(tcpInfo.rtt + 4, true)
  t.ok(Math.abs(rtt - 2 * variance) <= 2, `${rtt} and ${variance} us`)
  t.equal(info.view.getUint32(tcpInfo.totalRetransmits, true), 0)
})
