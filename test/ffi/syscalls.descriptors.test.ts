import t from 'tap'
import * as c from '../../src/ffi/constants.ts'
import { errno, errnoName, systemError } from '../../src/ffi/errno.ts'
import { linuxRelaySkip } from '../support/linux-only.ts'
import { Bench, flags } from '../relay/engine/calls-bench.ts'

const skip = linuxRelaySkip()

t.test(
  'pipe2, write and read carry bytes, and say EAGAIN and EBADF',
  { skip },
  async t => {
    const bench = new Bench(t)
    const [from, into] = bench.pipe()
    t.equal(bench.read(from), -errno.EAGAIN)
    t.equal(bench.write(into, 'hello'), 5)
    t.equal(bench.read(from), 'hello')
    t.equal(bench.write(from, 'x'), -errno.EBADF)
    t.equal(bench.read(into), -errno.EBADF)
    t.equal(bench.close(into), 0)
    t.equal(bench.read(from), '', 'the end')
    t.equal(bench.calls.pipe(8, flags), -errno.EFAULT)
  },
)

t.test('close answers EBADF for what is closed already', { skip }, async t => {
  const bench = new Bench(t)
  const [from] = bench.pipe()
  t.equal(bench.close(from), 0)
  t.equal(bench.calls.close(from), -errno.EBADF)
})

t.test('fcntl sizes a pipe, and takes no strange command', { skip }, async t => {
  const bench = new Bench(t)
  const [from] = bench.pipe()
  t.equal(bench.calls.fcntl(from, c.F_SETPIPE_SZ, 8192), 8192)
  t.equal(bench.calls.fcntl(from, 9999, 0), -errno.EINVAL)
})

t.test(
  'splice moves what lies in a pipe, and answers EAGAIN when nothing does',
  { skip },
  async t => {
    const bench = new Bench(t)
    const { calls } = bench
    const [from, into] = bench.pipe()
    const { client, server } = bench.connection()
    const how = c.SPLICE_F_MOVE | c.SPLICE_F_NONBLOCK
    t.equal(calls.splice(client, into, 65_536, how), -errno.EAGAIN)
    t.equal(bench.write(server, 'through a pipe'), 14)
    t.equal(calls.splice(client, into, 65_536, how), 14)
    t.equal(calls.splice(from, client, 14, how), 14)
    t.equal(bench.read(server), 'through a pipe')
    t.equal(calls.splice(client, server, 1, how), -errno.EINVAL, 'one must be a pipe')
  },
)

t.test('an eventfd counts, and is empty when it was read', { skip }, async t => {
  const bench = new Bench(t)
  const { calls, memory } = bench
  const counter = bench.keep(calls.eventfd(3, flags))
  memory.view.setBigUint64(0, 2n, true)
  t.equal(calls.write(counter, memory.address, 8), 8)
  t.equal(calls.read(counter, memory.address, 8), 8)
  t.equal(memory.view.getBigUint64(0, true), 5n)
  t.equal(calls.read(counter, memory.address, 8), -errno.EAGAIN)
  t.equal(calls.eventfd(0, 0x7fffffff), -errno.EINVAL)
})

t.test('epoll gives back what it was told of each descriptor', { skip }, async t => {
  const bench = new Bench(t)
  const { calls, layout, memory } = bench
  const { epollEventWords: size, epollDataWord: data } = layout
  const epoll = bench.keep(calls.epollCreate(c.SOCK_CLOEXEC))
  const counters = [0x7fff_ffff, -2].map(index => {
    const counter = bench.keep(calls.eventfd(1, flags))
    memory.words.set([c.EPOLLIN | c.EPOLLET])
    memory.words[data] = index
    memory.words[data + 1] = 7
    t.equal(calls.epollCtl(epoll, c.EPOLL_CTL_ADD, counter, memory.address), 0)
    return counter
  })
  memory.words.fill(-1)
  t.equal(calls.epollWait(epoll, memory.address, 8, 1000), 2)
  const seen = [0, 1].map(i =>
    Array.from(memory.words.subarray(i * size, i * size + size)),
  )
  t.strictSame(
    seen.map(event => [event[0], event[data], event[data + 1]]),
    [
      [c.EPOLLIN, 0x7fff_ffff, 7],
      [c.EPOLLIN, -2, 7],
    ],
  )
  t.equal(calls.epollWait(epoll, memory.address, 8, 0), 0, 'edges are told once')
  const [first = -1] = counters
  t.equal(calls.epollCtl(epoll, c.EPOLL_CTL_ADD, first, memory.address), -errno.EEXIST)
  t.equal(calls.epollCtl(epoll, c.EPOLL_CTL_DEL, first, memory.address), 0)
  t.equal(calls.epollCtl(epoll, c.EPOLL_CTL_MOD, first, memory.address), -errno.ENOENT)
  t.equal(calls.epollWait(epoll, memory.address, 0, 0), -errno.EINVAL)
  t.equal(calls.epollCreate(0x7fffffff), -errno.EINVAL)
})

t.test('errors have the names that Node gives them', async t => {
  t.equal(errnoName(-errno.ECONNREFUSED), 'ECONNREFUSED')
  const { code, message, errno: number } = systemError('bind 192.0.2.1:80', -errno.EACCES)
  t.strictSame(
    [code, message, number],
    ['EACCES', 'bind 192.0.2.1:80: EACCES', -errno.EACCES],
  )
  t.match(errnoName(-524), /524/, 'one that only the kernel knows')
})
