import { spawn } from 'node:child_process'
import { once } from 'node:events'
import t, { type Test } from 'tap'
import { EPOLLERR, EPOLLET, EPOLLIN, EPOLLOUT } from '../../../src/ffi/constants.ts'
import { errno } from '../../../src/ffi/errno.ts'
import { EventLoop, type EventSource } from '../../../src/relay/engine/event-loop.ts'
import type { Syscalls } from '../../../src/ffi/syscalls.ts'
import { linuxRelaySkip } from '../../support/linux-only.ts'
import { Bench } from './calls-bench.ts'

const skip = linuxRelaySkip()

class Recorder implements EventSource<number> {
  readonly seen: string[] = []
  whenReady: (index: number, events: number) => void = () => {}

  ready(index: number, events: number): void {
    this.seen.push(`${index}:${events}`)
    this.whenReady(index, events)
  }

  failed(index: number, error: unknown): void {
    this.seen.push(`${index} failed: ${String(error)}`)
  }

  take(): readonly string[] {
    return this.seen.splice(0)
  }
}

const setUp = (t: Test, over: Partial<Syscalls> = {}) => {
  const bench = new Bench(t)
  let time = 1000
  const calls = { ...bench.calls, ...over }
  const loop = new EventLoop(calls, bench.layout, () => time)
  t.teardown(() => loop.close())
  const source = new Recorder()
  return {
    bench,
    loop,
    source,
    pass: (ms: number) => (time += ms),
  }
}

t.test(
  'an event goes to its source with the index it was added with',
  { skip },
  async t => {
    const { bench, loop, source } = setUp(t)
    const other = new Recorder()
    const [from, into] = bench.pipe()
    t.equal(loop.add(from, source, 3_000_000, EPOLLIN | EPOLLET), 0)
    t.equal(loop.add(into, other, 5, EPOLLOUT), 0)
    loop.turn(0)
    t.strictSame([source.take(), other.take()], [[], [`5:${EPOLLOUT}`]])
    loop.pass(into, other, 6)
    loop.modify(into, 0)
    bench.write(into, 'x')
    loop.turn(1000)
    t.strictSame([source.take(), other.take()], [[`3000000:${EPOLLIN}`], []])
    loop.turn(0)
    t.strictSame(source.take(), [], 'an edge is told once')
    t.equal(loop.remove(from), 0)
    t.equal(loop.remove(from), -errno.ENOENT)
    t.equal(loop.add(-1, source, 1, EPOLLIN), -errno.EBADF)
    bench.close(from)
    loop.turn(1000)
    t.strictSame(other.take(), [`6:${EPOLLERR}`])
  },
)

t.test(
  'who asks to be called again is, after the others of the turn',
  { skip },
  async t => {
    const { bench, loop, source } = setUp(t)
    const [from, into] = bench.pipe()
    const [from2, into2] = bench.pipe()
    bench.write(into, 'x')
    bench.write(into2, 'x')
    loop.add(from, source, 1, EPOLLIN | EPOLLET)
    loop.add(from2, source, 2, EPOLLIN | EPOLLET)
    source.whenReady = (index, events) => {
      if (index === 1 && events !== 0) loop.again(source, 1)
    }
    loop.turn(0)
    t.strictSame(source.take(), [`1:${EPOLLIN}`, `2:${EPOLLIN}`, '1:0'])
  },
)

t.test(
  'who asks each time is called once a turn, and nobody sleeps meanwhile',
  { skip },
  async t => {
    const waits: number[] = []
    const { loop, source } = setUp(t, {})
    source.whenReady = () => loop.again(source, 7)
    loop.again(source, 7)
    const before = performance.now()
    for (let i = 0; i < 3; i += 1) loop.turn(10_000)
    t.ok(performance.now() - before < 5000)
    t.strictSame(source.take(), ['7:0', '7:0', '7:0'])
    t.strictSame(waits, [])
  },
)

t.test(
  'what is to be done after a turn is done when all have had their events',
  { skip },
  async t => {
    const { bench, loop, source } = setUp(t)
    const [from, into] = bench.pipe()
    bench.write(into, 'x')
    loop.add(from, source, 1, EPOLLIN | EPOLLET)
    loop.again(source, 2)
    loop.afterTurn(() => source.seen.push('after'))
    loop.turn(0)
    t.strictSame(source.take(), [`1:${EPOLLIN}`, '2:0', 'after'])
  },
)

t.test('a source that throws is told, and the others go on', { skip }, async t => {
  const { bench, loop, source } = setUp(t)
  const [from, into] = bench.pipe()
  const [from2, into2] = bench.pipe()
  bench.write(into, 'x')
  bench.write(into2, 'x')
  loop.add(from, source, 1, EPOLLIN | EPOLLET)
  loop.add(from2, source, 2, EPOLLIN | EPOLLET)
  source.whenReady = index => {
    if (index === 1) throw new Error('broken')
  }
  loop.turn(0)
  t.strictSame(source.take(), [`1:${EPOLLIN}`, '1 failed: Error: broken', `2:${EPOLLIN}`])
})

t.test(
  'a source that fails to fail is told of when the others are done',
  { skip },
  async t => {
    const { bench, loop, source } = setUp(t)
    const [from, into] = bench.pipe()
    const [from2, into2] = bench.pipe()
    bench.write(into, 'x')
    bench.write(into2, 'x')
    const hopeless: EventSource<number> = {
      ready: () => {
        throw new Error('broken')
      },
      failed: () => {
        throw new Error('broken too')
      },
    }
    loop.add(from, hopeless, 1, EPOLLIN | EPOLLET)
    loop.add(from2, source, 2, EPOLLIN | EPOLLET)
    loop.afterTurn(() => source.seen.push('after'))
    t.throws(() => loop.turn(0), { message: 'broken too' })
    t.strictSame(source.take(), [`2:${EPOLLIN}`, 'after'], 'an edge is told once')
    loop.turn(0)
    t.strictSame(source.take(), ['after'])
  },
)

t.test('a wait that a signal ends is a turn without events', { skip }, async t => {
  const { loop, source } = setUp(t, { epollWait: () => -errno.EINTR })
  const after: string[] = []
  loop.afterTurn(() => after.push('after'))
  loop.again(source, 1)
  loop.turn(1000)
  t.strictSame([source.take(), after], [['1:0'], ['after']])
})

t.test('a wait that fails for good is an error', { skip }, async t => {
  const { loop } = setUp(t, { epollWait: () => -errno.EBADF })
  t.throws(() => loop.turn(0), { code: 'EBADF' })
  t.throws(() => setUp(t, { epollCreate: () => -errno.EMFILE }), { code: 'EMFILE' })
})

t.test(
  'the loop waits no longer than its timers, from when their time began',
  { skip },
  async t => {
    const waits: number[] = []
    const answer = (
      _epoll: number,
      _events: number,
      _count: number,
      ms: number,
    ): number => {
      waits.push(ms)
      return 0
    }
    const { loop, pass } = setUp(t, { epollWait: answer })
    const told: string[] = []
    loop.turn(Infinity)
    loop.turn(50)
    loop.turn(1e12)
    t.strictSame(waits.splice(0), [-1, 50, 3_600_000])
    loop.clock.setTimeout(() => told.push(`clock at ${loop.now}`), 100)
    loop.addTimers({
      wait: now => 1030 - now,
      run: now => void told.push(`own at ${now}`),
    })
    pass(12.5) // Handling what came before has taken a while.
    loop.turn(1000)
    t.strictSame(waits.splice(0), [18])
    t.strictSame(told.splice(0), [], 'nothing is due')
    pass(100)
    loop.turn(1000)
    t.strictSame(told, ['clock at 1112.5', 'own at 1112.5'])
    t.ok(waits.every(ms => ms >= 0))
  },
)

/** A child that has a copy of the descriptor, as each has between clone and exec. */
const holdCopy = async (t: Test, fd: number): Promise<void> => {
  const child = spawn('sleep', ['60'], { stdio: ['ignore', 'ignore', 'ignore', fd] })
  t.teardown(() => child.kill())
  await once(child, 'spawn')
}

const watched = [
  {
    how: 'edges are told once at most',
    events: EPOLLIN | EPOLLET,
    leave: (loop: EventLoop, fd: number) => loop.closing(fd),
    told: [1, 0],
  },
  // Else it would wake the loop for as long as the child lives.
  {
    how: 'levels not at all',
    events: EPOLLIN,
    leave: (loop: EventLoop, fd: number) => loop.remove(fd),
    told: [0, 0],
  },
]

for (const { how, events, leave, told } of watched)
  t.test(
    `a number that is used again hears nothing of a socket that a child has a copy of: ${how}`,
    { skip },
    async t => {
      const { calls } = new Bench(t)
      const reported: number[] = []
      const { bench, loop, source } = setUp(t, {
        epollWait: (...args) => {
          const count = calls.epollWait(...args)
          reported.push(count)
          return count
        },
      })
      const [from, into] = bench.pipe()
      t.equal(loop.add(from, source, 1, events), 0)
      await holdCopy(t, from)
      leave(loop, from)
      bench.close(from)
      const [again] = bench.pipe()
      t.equal(again, from, 'the number is another one now')
      t.equal(loop.add(again, source, 2, events), 0)
      bench.write(into, 'x')
      loop.turn(0)
      loop.turn(0)
      t.strictSame(source.take(), [])
      t.strictSame(reported, told)
    },
  )

t.test(
  'a number that is used again in the same turn hears nothing of the socket before',
  { skip },
  async t => {
    const { bench, loop, source } = setUp(t)
    const pipes = [bench.pipe(), bench.pipe()] as const
    for (const [i, [from, into]] of pipes.entries()) {
      bench.write(into, 'x')
      loop.add(from, source, i, EPOLLIN | EPOLLET)
    }
    source.whenReady = index => {
      const [other] = pipes[index === 0 ? 1 : 0]
      loop.closing(other)
      bench.close(other)
      const [again] = bench.pipe()
      t.equal(again, other)
      t.equal(loop.add(again, source, 7, EPOLLIN | EPOLLET), 0)
    }
    loop.turn(0)
    t.equal(source.take().length, 1)
  },
)
