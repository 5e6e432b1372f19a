import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import * as c from '../../../src/ffi/constants.ts'
import { errno } from '../../../src/ffi/errno.ts'
import { cmsghdr, iovec, msghdr } from '../../../src/ffi/struct-layout.ts'
import {
  Channel,
  type Door,
  knock,
  openDoor,
} from '../../../src/relay/hand-over/channel.ts'
import { RecordSocket } from '../../../src/relay/hand-over/record-socket.ts'
import { writeSockaddr } from '../../../src/relay/engine/sockaddr.ts'
import { systemClock } from '../../../src/util/clock.ts'
import { linuxRelaySkip } from '../../support/linux-only.ts'
import { typescript } from '../../support/typescript.ts'
import { until } from '../../support/until.ts'
import { Bench, flags } from '../engine/calls-bench.ts'

const skip = linuxRelaySkip()
/** Far more than anything here takes. */
const ms = 60_000
const isRoot = process.getuid?.() === 0
const getFlags = 1
const closeOnExec = 1

const openFds = (): number => readdirSync('/proc/self/fd').length

/** Descriptors that count to 1, 2, 3 and so on: each can be told from the others. */
const counters = (bench: Bench, count: number): readonly number[] =>
  Array.from({ length: count }, (_, i) => bench.keep(bench.calls.eventfd(i + 1, flags)))

const countOf = ({ calls, memory }: Bench, fd: number): number =>
  calls.read(fd, memory.address, 8) === 8 ? Number(memory.view.getBigUint64(0, true)) : -1

const doorOf = (t: Test, { calls }: Bench): Door => {
  const door = openDoor(calls)
  t.teardown(() => door.close())
  return door
}

/** Both ends of a channel, as two processes would have them. */
const channels = async (t: Test, bench: Bench): Promise<readonly [Channel, Channel]> => {
  const door = doorOf(t, bench)
  const both = await Promise.all([
    door.accept(ms),
    knock(bench.calls, door.name, door.token, ms),
  ])
  t.teardown(() => both.forEach(channel => channel.close()))
  return both
}

const connected = (bench: Bench, name: string): number => {
  const fd = bench.keep(bench.calls.socket(c.AF_UNIX, c.SOCK_SEQPACKET | flags, 0))
  const length = writeSockaddr(bench.memory, 0, `unix:${name}`, 0)
  t.equal(bench.calls.connect(fd, bench.memory.address, length), 0)
  return fd
}

/** A channel, and a socket at its other end that may do what no channel does. */
const channelAndSocket = (t: Test, bench: Bench, isTrusted = true) => {
  const { calls, memory } = bench
  const name = `@usher-test-${randomBytes(8).toString('hex')}`
  const listener = bench.keep(calls.socket(c.AF_UNIX, c.SOCK_SEQPACKET | flags, 0))
  const length = writeSockaddr(memory, 0, `unix:${name}`, 0)
  t.equal(calls.bind(listener, memory.address, length), 0)
  t.equal(calls.listen(listener, 1), 0)
  const fd = connected(bench, name)
  const socket = new RecordSocket(calls, calls.accept(listener, 0, 0, flags))
  const channel = new Channel(socket, socket.open(), systemClock)
  if (isTrusted) channel.trust()
  t.teardown(() => channel.close())
  return { channel, fd, records: new RecordSocket(calls, fd) }
}

/** A record as the kernel takes it, whatever is in it. */
const sendRaw = (
  { calls }: Bench,
  fd: number,
  bytes: Buffer,
  fds: readonly number[],
): number => {
  const at = { vector: msghdr.size, control: 80, data: 2000 } as const
  const { address, view, bytes: memory } = calls.allocate(at.data + bytes.length)
  const put = (where: number, value: number): void =>
    view.setBigUint64(where, BigInt(value), true)
  put(msghdr.iov, address + at.vector)
  put(msghdr.iovLength, 1)
  put(at.vector + iovec.base, address + at.data)
  put(at.vector + iovec.length, bytes.length)
  put(msghdr.control, fds.length === 0 ? 0 : address + at.control)
  const length = cmsghdr.data + 4 * fds.length
  put(msghdr.controlLength, fds.length === 0 ? 0 : Math.ceil(length / 8) * 8)
  put(at.control + cmsghdr.length, length)
  view.setInt32(at.control + cmsghdr.level, c.SOL_SOCKET, true)
  view.setInt32(at.control + cmsghdr.type, c.SCM_RIGHTS, true)
  fds.forEach((sent, i) => view.setInt32(at.control + cmsghdr.data + 4 * i, sent, true))
  bytes.copy(memory, at.data)
  return calls.sendmsg(fd, address, c.MSG_NOSIGNAL)
}

/** One with the head that it should have, but for `over`. */
const record = (text: string, over: readonly number[] = [], fds = 0): Buffer => {
  const head = Buffer.from([0x55, 0x53, 0x48, 1, 0, 1, fds, 0])
  over.forEach((byte, i) => void (head[i] = byte))
  return Buffer.concat([head, Buffer.from(text)])
}

/** A process of peer.ts; `openFiles`: its RLIMIT_NOFILE. Ended with the test. */
const peer = (t: Test, args: readonly string[], openFiles?: number) => {
  const program = fileURLToPath(new URL('peer.ts', import.meta.url))
  const limited =
    openFiles === undefined ? [] : ['sh', '-c', `ulimit -n ${openFiles}; exec "$@"`, 'sh']
  const node = [process.execPath, typescript, program, ...args]
  const [file = '', ...rest] = [...limited, ...node]
  const child = spawn(file, rest, {
    env: { PATH: process.env['PATH'] },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  const end = once(child, 'exit')
  t.teardown(async () => {
    child.kill('SIGKILL')
    await end
  })
  const report = async (): Promise<Record<string, unknown>> => {
    const [said] = (await Promise.race([
      once(child, 'message'),
      end.then(() => [{ problem: 'it ended without a word' }]),
    ])) as [Record<string, unknown>]
    return said
  }
  return { child, report, end }
}

t.test('messages go both ways, one after the other', { skip }, async t => {
  const [one, other] = await channels(t, new Bench(t))
  t.strictSame(
    [one.peer, other.peer],
    [1, 2].map(() => ({ pid: process.pid, uid: process.geteuid?.() })),
  )
  for (const value of [{ a: [1, null, 'ü'] }, null, 'text', []]) {
    const [there] = await Promise.all([other.receive(ms), one.send(value)])
    t.strictSame(there, { value, fds: [] })
    const [back] = await Promise.all([one.receive(ms), other.send([value])])
    t.strictSame(back, { value: [value], fds: [] })
  }
})

for (const count of [1, 253, 254, 1000])
  t.test(`${count} descriptors arrive in order, each usable`, { skip }, async t => {
    const bench = new Bench(t)
    const [one, other] = await channels(t, bench)
    const sent = counters(bench, count)
    const before = openFds()
    const [message] = await Promise.all([other.receive(ms), one.send({ count }, sent)])
    const fds = message?.fds.map(fd => bench.keep(fd)) ?? []
    t.equal(fds.length, count)
    t.strictSame(
      fds.map(fd => countOf(bench, fd)),
      sent.map((_, i) => i + 1),
    )
    t.ok(
      fds.every(fd => bench.calls.fcntl(fd, getFlags, 0) === closeOnExec),
      'no child of this process gets them',
    )
    fds.forEach(fd => bench.close(fd))
    t.equal(openFds(), before, 'and no others')
    t.ok(
      sent.every(fd => bench.calls.fcntl(fd, getFlags, 0) >= 0),
      "the sender's own are open still",
    )
  })

t.test('a message may be long, with descriptors beside it', { skip }, async t => {
  const bench = new Bench(t)
  const [one, other] = await channels(t, bench)
  const text = randomBytes(2 ** 19).toString('hex')
  const [fd = -1] = counters(bench, 1)
  const [message] = await Promise.all([other.receive(ms), one.send(text, [fd])])
  t.ok(message?.value === text)
  t.equal(message?.fds.map(arrived => bench.keep(arrived)).length, 1)
})

t.test('both may send at the same time, several messages each', { skip }, async t => {
  const [one, other] = await channels(t, new Bench(t))
  const values = [1, 2, 3, 4].map(digit => String(digit).repeat(150_000))
  const receiveAll = async (channel: Channel): Promise<unknown[]> => {
    const received: unknown[] = []
    for (const _ of values) received.push((await channel.receive(ms))?.value)
    return received
  }
  const sendAll = (channel: Channel) => values.map(value => channel.send(value))
  const [first, second] = await Promise.all([
    receiveAll(one),
    receiveAll(other),
    ...sendAll(one),
    ...sendAll(other),
  ])
  t.ok([first, second].every(received => received?.join() === values.join()))
})

t.test('a wrong token is refused, and the right one is awaited', { skip }, async t => {
  const bench = new Bench(t)
  const door = doorOf(t, bench)
  const accepted = door.accept(ms)
  for (const token of ['', door.token.slice(1), door.token.replace(/^./, 'x')])
    await t.rejects(knock(bench.calls, door.name, token, ms), {
      code: 'HAND_OVER',
      message: /does not take this one/,
    })
  const other = await knock(bench.calls, door.name, door.token, ms)
  const one = await accepted
  await Promise.all([
    one.send('hello'),
    t.resolveMatch(other.receive(ms), { value: 'hello' }),
  ])
  other.close()
  one.close()
})

t.test('who says nothing, or nonsense, holds up no other', { skip }, async t => {
  const bench = new Bench(t)
  const door = doorOf(t, bench)
  const accepted = door.accept(ms)
  // More than are asked at the same time.
  for (let i = 0; i < 20; i += 1) {
    const fd = connected(bench, door.name)
    if (i % 4 === 3) bench.write(fd, 'open up')
    if (i % 4 === 2) bench.write(fd, 'x'.repeat(4000))
  }
  const before = openFds()
  const other = await knock(bench.calls, door.name, door.token, ms)
  const one = await accepted
  await t.rejects(knock(bench.calls, door.name, door.token, ms), {
    message: /no Usher waits/,
  })
  one.close()
  other.close()
  t.equal(openFds(), before - 1, 'all that it let in are closed, and the door')
})

t.test('of many that are silent the oldest makes room', { skip }, async t => {
  const bench = new Bench(t)
  const door = doorOf(t, bench)
  const accepted = t.rejects(door.accept(ms), { message: /closed by this one/ })
  const [oldest = -1, ...others] = Array.from({ length: 9 }, () =>
    connected(bench, door.name),
  )
  await until('it is closed', () => bench.read(oldest) === '')
  t.ok(others.every(fd => bench.read(fd) === -errno.EAGAIN))
  door.close()
  await accepted
})

t.test('of two with the right token one is let in', { skip }, async t => {
  const bench = new Bench(t)
  const door = doorOf(t, bench)
  const knocks = Promise.allSettled(
    [1, 2, 3].map(() => knock(bench.calls, door.name, door.token, ms)),
  )
  const one = await door.accept(ms)
  const letIn = (await knocks).filter(result => result.status === 'fulfilled')
  t.equal(letIn.length, 1)
  const received = letIn[0]?.value.receive(ms)
  await one.send('you')
  t.match(await received, { value: 'you' })
  letIn[0]?.value.close()
  one.close()
})

t.test('a door that is awaited in vain says who came, and is shut', { skip }, async t => {
  const bench = new Bench(t)
  const before = openFds()
  const door = doorOf(t, bench)
  const refused = t.rejects(door.accept(300), {
    code: 'HAND_OVER',
    message: /within 300 ms; refused were 1, .* does not know the token$/,
  })
  await t.rejects(knock(bench.calls, door.name, 'guessed', ms))
  const silent = connected(bench, door.name)
  await refused
  bench.close(silent)
  t.equal(openFds(), before)
  await t.rejects(knock(bench.calls, door.name, door.token, ms), {
    message: /no Usher waits/,
  })
  await t.rejects(door.accept(ms), { message: /was closed by this one/ })
  const other = openDoor(bench.calls)
  const closed = t.rejects(other.accept(ms), { message: /was closed by this one/ })
  other.close()
  await closed
})

t.test('a knock that is not answered ends in time', { skip }, async t => {
  const bench = new Bench(t)
  const door = doorOf(t, bench)
  const before = openFds()
  await t.rejects(knock(bench.calls, door.name, door.token, 30), {
    message: /has not taken what was sent/,
  })
  t.equal(openFds(), before)
})

t.test('who closes amid a message leaves nothing behind', { skip }, async t => {
  const bench = new Bench(t)
  const { channel, records } = channelAndSocket(t, bench)
  const fds = counters(bench, 5)
  const before = openFds()
  const received = channel.receive(ms)
  const part = { kind: 'data', isLast: false, text: Buffer.from('{"a'), fds } as const
  t.equal(records.send(part), 'sent')
  await until('it is acknowledged', () => records.receive() !== undefined)
  t.equal(openFds(), before + 5)
  records.close()
  t.equal(await received, undefined)
  t.equal(openFds(), before - 2, 'both ends are closed, and what came')
  await t.rejects(channel.send('x'), { message: /has gone before it had taken all/ })
})

t.test('what a peer sent before it closed is received', { skip }, async t => {
  const bench = new Bench(t)
  const { channel, records } = channelAndSocket(t, bench)
  // Closed with an acknowledgement unread: the kernel tells that first, as a reset.
  const late = { kind: 'data', isLast: true, text: Buffer.from('1'), fds: [] } as const
  t.equal(records.send(late), 'sent')
  t.match(await channel.receive(ms), { value: 1 })
  t.equal(records.send({ ...late, fds: counters(bench, 1) }), 'sent')
  records.close()
  const message = await channel.receive(ms)
  t.equal(countOf(bench, bench.keep(message?.fds[0] ?? -1)), 1)
  t.equal(await channel.receive(ms), undefined)
})

t.test('who does not acknowledge ends the channel, in time', { skip }, async t => {
  const bench = new Bench(t)
  const { channel } = channelAndSocket(t, bench)
  await t.rejects(channel.receive(20), { message: /has said nothing for 20 ms/ })
  await t.rejects(channel.send('x', [], 20), {
    code: 'HAND_OVER',
    message: /has not taken what was sent to it for 20 ms/,
  })
  await t.rejects(channel.send('x'), { message: /has not taken/ })
})

t.test('a channel that is closed lets no one wait', { skip }, async t => {
  const bench = new Bench(t)
  const [one, other] = await channels(t, bench)
  const received = t.rejects(one.receive(ms), { message: /closed by this one/ })
  one.close()
  await received
  t.equal(await other.receive(ms), undefined)
  await t.rejects(one.send('x'), { message: /closed by this one/ })
})

t.test('what was not received is closed with the channel', { skip }, async t => {
  const bench = new Bench(t)
  const { channel, fd, records } = channelAndSocket(t, bench)
  const fds = counters(bench, 3)
  const before = openFds()
  // Taken in while it sends, and never asked for.
  const sent = t.rejects(channel.send('x', [], ms), { message: /closed by this one/ })
  t.ok(sendRaw(bench, fd, record('1', [], 3), fds) > 0)
  const kinds: unknown[] = []
  await until('it is acknowledged', () => {
    const came = records.receive()
    if (typeof came === 'object') kinds.push(came.kind)
    return kinds.length === 2
  })
  t.strictSame(new Set(kinds), new Set(['ack', 'data']))
  t.equal(openFds(), before + 3)
  channel.close()
  await sent
  t.equal(openFds(), before - 1)
})

t.test('a descriptor that is none is refused, by its errno', { skip }, async t => {
  const [one, other] = await channels(t, new Bench(t))
  const received = other.receive(ms)
  await t.rejects(one.send('x', [1_000_000]), {
    message: "1 descriptors can't be handed over: sendmsg: EBADF",
    cause: { code: 'EBADF' },
  })
  t.equal(await received, undefined)
  await t.rejects(other.send(undefined), TypeError)
})

t.test('a record is what the tests of garbage begin with', { skip }, async t => {
  const bench = new Bench(t)
  const { channel, fd } = channelAndSocket(t, bench)
  t.equal(sendRaw(bench, fd, record('5', [], 1), counters(bench, 1)), 9)
  const message = await channel.receive(ms)
  t.equal(message?.value, 5)
  t.equal(countOf(bench, bench.keep(message?.fds[0] ?? -1)), 1)
})

const head = [0x55, 0x53, 0x48] as const
const garbage: readonly [string, Buffer, number, RegExp][] = [
  ['bytes of another program', Buffer.from('GET / HTTP/1.1'), 1, /is not of an Usher/],
  ['a part of a head', Buffer.from('USH'), 1, /is not of an Usher/],
  ['descriptors without a byte', Buffer.alloc(0), 2, /is not of an Usher/],
  ['another format', record('5', [...head, 2]), 0, /in format 2, and this one in 1/],
  ['another kind', record('5', [...head, 1, 7]), 0, /malformed/],
  ['more descriptors than it says', record('5', [], 1), 2, /malformed/],
  ['fewer than it says', record('5', [], 3), 2, /cut off.*: 2 of 3 arrived/],
  ['a record that is too long', record('5'.repeat(65_529)), 1, /malformed/],
  ['no JSON', record('{"a":', [], 1), 1, /is not JSON/],
  ['nothing, and more to come', record('', [...head, 1, 0, 0]), 0, /without anything/],
  ['an answer to nothing', record('', [...head, 1, 1, 1]), 0, /what was not sent/],
  ['an answer with more', record('', [...head, 1, 1, 1], 1), 1, /what was not sent/],
]

for (const [what, bytes, count, message] of garbage)
  t.test(`refused is ${what}`, { skip }, async t => {
    const bench = new Bench(t)
    const { channel, fd } = channelAndSocket(t, bench)
    const fds = counters(bench, count)
    const before = openFds()
    t.equal(sendRaw(bench, fd, bytes, fds), bytes.length)
    await t.rejects(channel.receive(ms), { code: 'HAND_OVER', message })
    await t.rejects(channel.send('x'), { message })
    t.equal(openFds(), before - 1, 'nothing is left open')
  })

t.test('a peer without the token may send no more than one', { skip }, async t => {
  for (const [text, count] of [
    [JSON.stringify('x'.repeat(300)), 0],
    ['1', 1],
  ] as const) {
    const bench = new Bench(t)
    const { channel, fd } = channelAndSocket(t, bench, false)
    const fds = counters(bench, count)
    const before = openFds()
    t.ok(sendRaw(bench, fd, record(text, [], count), fds) > 0)
    await t.rejects(channel.receive(ms), { message: /sends more than/ })
    t.equal(openFds(), before - 1)
  }
})

t.test('a flood that is not received is not held', { skip }, async t => {
  const bench = new Bench(t)
  const { channel, fd, records } = channelAndSocket(t, bench)
  const sent = t.rejects(channel.send('x', [], ms), { message: /sends more than/ })
  // Never acknowledges, and sends.
  await until('the channel is closed', () => {
    sendRaw(bench, fd, record('1'), [])
    return records.receive() === 'end'
  })
  await sent
})

t.test('descriptors beyond the limit of a process are told', { skip }, async t => {
  const bench = new Bench(t)
  const door = doorOf(t, bench)
  const { report } = peer(t, ['receive', door.name, door.token], 64)
  const channel = await door.accept(ms)
  const before = openFds()
  await t.rejects(channel.send('x', counters(bench, 200), ms), {
    message: /has gone before it had taken all/,
  })
  t.equal(openFds(), before + 199)
  const { problem, left } = await report()
  t.match(problem, /cut off .*: \d+ of 200 arrived\. .*\(RLIMIT_NOFILE, 64\) is too low/)
  t.equal(left, 0)
})

const notRoot = isRoot ? false : 'only root can start a process of another user'

t.test('a process of another user is not let in', { skip: skip || notRoot }, async t => {
  const bench = new Bench(t)
  const door = doorOf(t, bench)
  const accepted = door.accept(ms)
  const { report } = peer(t, ['stranger', door.name, door.token])
  t.match(await report(), { problem: /does not take this one|has gone before/ })
  const other = await knock(bench.calls, door.name, door.token, ms)
  const one = await accepted
  t.equal(one.peer.uid, 0)
  one.close()
  other.close()
})

t.test('another user gets no token', { skip: skip || notRoot }, async t => {
  const { report } = peer(t, ['strangeDoor'])
  const { name = '', token = '' } = (await report()) as Record<string, string>
  await t.rejects(knock(new Bench(t).calls, name, token, ms), {
    message: /is of another user \(65534\), and is not spoken to/,
  })
})

t.test('a peer that is killed has gone, and what it had begun', { skip }, async t => {
  const bench = new Bench(t)
  const door = doorOf(t, bench)
  const before = openFds()
  const { child, report, end } = peer(t, ['send', door.name, door.token])
  const channel = await door.accept(ms)
  const [first] = await Promise.all([channel.receive(ms), report()])
  t.equal(first?.value, 'first')
  t.equal(channel.peer.pid, child.pid)
  child.kill('SIGKILL')
  await end
  t.equal(await channel.receive(ms), undefined)
  t.equal(countOf(bench, bench.keep(first?.fds[0] ?? -1)), 7, 'what it sent lives on')
  bench.close(first?.fds[0] ?? -1)
  t.equal(openFds(), before - 1, 'the door is closed, and the channel')
})

t.test('thousands of descriptors go to another process', { skip }, async t => {
  const bench = new Bench(t)
  const door = doorOf(t, bench)
  const { report } = peer(t, ['drain', door.name, door.token])
  const channel = await door.accept(ms)
  const fds = counters(bench, 250)
  const value = 'x'.repeat(25_000)
  for (let i = 0; i < 20; i += 1) await channel.send(value, fds, ms)
  channel.close()
  t.strictSame(await report(), { count: 5000 })
})
