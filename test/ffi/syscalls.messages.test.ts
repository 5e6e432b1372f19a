import t from 'tap'
import * as c from '../../src/ffi/constants.ts'
import { errno } from '../../src/ffi/errno.ts'
import type { NativeMemory } from '../../src/ffi/syscalls.ts'
import { readSockaddr } from '../../src/relay/engine/sockaddr.ts'
import {
  cmsghdr,
  iovec,
  msghdr,
  pktinfo,
  pktinfo6,
  sockaddrSize,
} from '../../src/ffi/struct-layout.ts'
import { linuxRelaySkip } from '../support/linux-only.ts'
import { until } from '../support/until.ts'
import { Bench } from '../relay/engine/calls-bench.ts'

const skip = linuxRelaySkip()
const datagrams = c.SOCK_DGRAM
const bufferSize = 64
const controlSize = 64

/** Headers of messages, each with a buffer, room for an address and for control data. */
class Messages {
  readonly headers: NativeMemory
  readonly #vectors: NativeMemory
  readonly #buffers: NativeMemory
  readonly names: NativeMemory
  readonly controls: NativeMemory

  constructor({ calls }: Bench, count: number) {
    this.headers = calls.allocate(count * msghdr.size)
    this.#vectors = calls.allocate(count * iovec.size)
    this.#buffers = calls.allocate(count * bufferSize)
    this.names = calls.allocate(count * 32)
    this.controls = calls.allocate(count * controlSize)
    for (let i = 0; i < count; i += 1) {
      this.#point(i, msghdr.name, this.names.address + i * 32)
      this.#point(i, msghdr.iov, this.#vectors.address + i * iovec.size)
      this.#point(i, msghdr.iovLength, 1)
      this.#point(i, msghdr.control, this.controls.address + i * controlSize)
      this.headers.view.setUint32(i * msghdr.size + msghdr.nameLength, sockaddrSize, true)
      this.#point(i, msghdr.controlLength, controlSize)
      const { view } = this.#vectors
      const buffer = BigInt(this.#buffers.address + i * bufferSize)
      view.setBigUint64(i * iovec.size + iovec.base, buffer, true)
      view.setBigUint64(i * iovec.size + iovec.length, BigInt(bufferSize), true)
    }
  }

  /** To be sent on a connected socket. */
  fill(i: number, text: string): void {
    const length = this.#buffers.bytes.write(text, i * bufferSize, 'latin1')
    this.#vectors.view.setBigUint64(i * iovec.size + iovec.length, BigInt(length), true)
    this.#point(i, msghdr.name, 0)
    this.headers.view.setUint32(i * msghdr.size + msghdr.nameLength, 0, true)
    this.#point(i, msghdr.controlLength, 0)
  }

  field(i: number, at: number): number {
    return this.headers.view.getInt32(i * msghdr.size + at, true)
  }

  text(i: number): string {
    const start = i * bufferSize
    return this.#buffers.bytes.toString(
      'latin1',
      start,
      start + this.field(i, msghdr.moved),
    )
  }

  /** Level, type and length of the control data of a message. */
  control(i: number): readonly number[] {
    const { view } = this.controls
    const start = i * controlSize
    return [
      view.getInt32(start + cmsghdr.level, true),
      view.getInt32(start + cmsghdr.type, true),
      Number(view.getBigUint64(start + cmsghdr.length, true)),
    ]
  }

  #point(i: number, at: number, value: number): void {
    this.headers.view.setBigUint64(i * msghdr.size + at, BigInt(value), true)
  }
}

t.test(
  'sendmmsg and recvmmsg move several datagrams, each with its length',
  { skip },
  async t => {
    const bench = new Bench(t)
    const { calls } = bench
    const { fd: server, at } = bench.bound(datagrams, '127.0.0.1')
    const [client] = bench.connect(datagrams, at)
    const sent = new Messages(bench, 2)
    sent.fill(0, 'first')
    sent.fill(1, 'the second one')
    t.equal(calls.sendmmsg(client, sent.headers.address, 2, c.MSG_DONTWAIT), 2)
    t.strictSame(
      [0, 1].map(i => sent.field(i, msghdr.moved)),
      [5, 14],
    )

    const came = new Messages(bench, 4)
    t.equal(calls.recvmmsg(server, came.headers.address, 4, c.MSG_DONTWAIT), 2)
    t.strictSame([came.text(0), came.text(1)], ['first', 'the second one'])
    t.equal(came.field(0, msghdr.nameLength), 16)
    t.strictSame(readSockaddr(came.names, 0), bench.ownAddress(client))
    t.strictSame(readSockaddr(came.names, 32), bench.ownAddress(client))
    t.equal(
      calls.recvmmsg(server, came.headers.address, 4, c.MSG_DONTWAIT),
      -errno.EAGAIN,
    )
  },
)

t.test('sendmsg and recvmsg move one message, and its errors', { skip }, async t => {
  const bench = new Bench(t)
  const { calls } = bench
  const { fd: server, at } = bench.bound(datagrams, '127.0.0.1')
  const [client] = bench.connect(datagrams, at)
  const sent = new Messages(bench, 1)
  sent.fill(0, 'alone')
  t.equal(calls.sendmsg(client, sent.headers.address, c.MSG_DONTWAIT), 5)
  const came = new Messages(bench, 1)
  t.equal(calls.recvmsg(server, came.headers.address, c.MSG_DONTWAIT), 5)
  t.strictSame(readSockaddr(came.names, 0), bench.ownAddress(client))
  const { address } = came.headers
  t.equal(calls.recvmsg(server, address, c.MSG_DONTWAIT), -errno.EAGAIN)
  t.equal(calls.recvmsg(-1, address, 0), -errno.EBADF)
  t.equal(calls.sendmsg(-1, address, 0), -errno.EBADF)
})

t.test('a datagram longer than its buffer is marked', { skip }, async t => {
  const bench = new Bench(t)
  const { calls } = bench
  const { fd: server, at } = bench.bound(datagrams, '127.0.0.1')
  const [client] = bench.connect(datagrams, at)
  bench.write(client, 'x'.repeat(bufferSize + 1))
  const came = new Messages(bench, 1)
  t.equal(calls.recvmmsg(server, came.headers.address, 1, c.MSG_DONTWAIT), 1)
  t.equal(came.field(0, msghdr.flags) & c.MSG_TRUNC, c.MSG_TRUNC)
  t.equal(came.field(0, msghdr.moved), bufferSize)
})

t.test('sendmmsg says when nobody took the last one', { skip }, async t => {
  const bench = new Bench(t)
  const { fd, at } = bench.bound(datagrams, '127.0.0.1')
  bench.close(fd)
  const [client] = bench.connect(datagrams, at)
  const sent = new Messages(bench, 1)
  sent.fill(0, 'to nobody')
  let answer = 1
  await until('the refusal', () => {
    answer = bench.calls.sendmmsg(client, sent.headers.address, 1, c.MSG_DONTWAIT)
    return answer < 0
  })
  t.equal(answer, -errno.ECONNREFUSED)
})

t.test('IP_PKTINFO tells which address a datagram was sent to', { skip }, async t => {
  const bench = new Bench(t)
  const { calls } = bench
  const { fd: server, at } = bench.bound(datagrams, '0.0.0.0')
  t.equal(bench.setOption(server, c.IPPROTO_IP, c.IP_PKTINFO, 1), 0)
  const [client] = bench.connect(datagrams, { address: '127.0.0.77', port: at.port })
  bench.write(client, 'x')
  const came = new Messages(bench, 1)
  t.equal(calls.recvmmsg(server, came.headers.address, 1, c.MSG_DONTWAIT), 1)
  t.strictSame(came.control(0), [c.IPPROTO_IP, c.IP_PKTINFO, cmsghdr.data + pktinfo.size])
  const { bytes, view } = came.controls
  const data = cmsghdr.data
  const addressAt = (offset: number): string =>
    [...bytes.subarray(data + offset, data + offset + 4)].join('.')
  t.equal(addressAt(pktinfo.destination), '127.0.0.77')
  t.equal(addressAt(pktinfo.source), '127.0.0.77')
  t.ok(view.getInt32(data + pktinfo.index, true) > 0, 'the index of the interface')
})

t.test('IPV6_PKTINFO does so too', { skip }, async t => {
  const bench = new Bench(t)
  const { calls } = bench
  const { fd: server, at } = bench.bound(datagrams, '::')
  t.equal(bench.setOption(server, c.IPPROTO_IPV6, c.IPV6_RECVPKTINFO, 1), 0)
  const [client] = bench.connect(datagrams, { address: '::1', port: at.port })
  bench.write(client, 'x')
  const came = new Messages(bench, 1)
  t.equal(calls.recvmmsg(server, came.headers.address, 1, c.MSG_DONTWAIT), 1)
  t.strictSame(came.control(0), [
    c.IPPROTO_IPV6,
    c.IPV6_PKTINFO,
    cmsghdr.data + pktinfo6.size,
  ])
  const { bytes, view } = came.controls
  const address = bytes.subarray(cmsghdr.data + pktinfo6.address).subarray(0, 16)
  t.equal(address.toString('hex'), '1'.padStart(32, '0'))
  t.ok(view.getInt32(cmsghdr.data + pktinfo6.index, true) > 0)
})

t.test('UDP_SEGMENT and UDP_GRO are options of this kernel', { skip }, async t => {
  const bench = new Bench(t)
  const { calls } = bench
  const { fd: server, at } = bench.bound(datagrams, '127.0.0.1')
  const [client] = bench.connect(datagrams, at)
  t.equal(bench.setOption(client, c.IPPROTO_UDP, c.UDP_SEGMENT, 10), 0)
  t.equal(bench.setOption(server, c.IPPROTO_UDP, c.UDP_GRO, 1), 0)
  t.equal(bench.option(client, c.IPPROTO_UDP, c.UDP_SEGMENT), 10)
  t.equal(bench.write(client, 'y'.repeat(25)), 25)
  const came = new Messages(bench, 3)
  let bytes = 0
  await until('all of it', () => {
    const count = calls.recvmmsg(server, came.headers.address, 3, c.MSG_DONTWAIT)
    for (let i = 0; i < count; i += 1) bytes += came.field(i, msghdr.moved)
    return bytes === 25
  })
})
