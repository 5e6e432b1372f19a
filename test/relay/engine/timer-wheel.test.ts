import * as fc from 'fast-check'
import t from 'tap'
import { LoopClock } from '../../../src/relay/engine/event-loop.ts'
import { Timed, TimerWheel } from '../../../src/relay/engine/timer-wheel.ts'

const tickMs = 8
/** Milliseconds that the wheel needs for one round. */
const round = 512 * tickMs

const ids = 5
const step = fc.oneof(
  fc.record({
    kind: fc.constant('set' as const),
    id: fc.nat(ids - 1),
    ms: fc.oneof(
      fc.nat(40),
      fc.nat(3 * round),
      fc.constant(round),
      fc.constant(Infinity),
    ),
  }),
  fc.record({ kind: fc.constant('clear' as const), id: fc.nat(ids - 1) }),
  fc.record({
    kind: fc.constant('go' as const),
    // Where it waits for what may expire, and where it is late.
    ms: fc.oneof(fc.constant('wait' as const), fc.nat(50), fc.nat(4 * round)),
  }),
)

class Numbered extends Timed {
  readonly id: number

  constructor(id: number) {
    super()
    this.id = id
  }
}

const numbered = (count: number): readonly Numbered[] =>
  Array.from({ length: count }, (_, id) => new Numbered(id))

/** A wheel, and a plain list of what must be in it. */
class Model {
  now: number
  readonly due = new Map<number, number>()
  readonly faults: string[] = []
  readonly wheel = new TimerWheel<Numbered>(tickMs, ({ id }) => this.#expired(id))
  readonly #timed = numbered(ids)
  /** What a callback does besides: set or clear another. */
  readonly #onExpiry: (model: Model, id: number) => void

  constructor(now: number, onExpiry: (model: Model, id: number) => void) {
    this.now = now
    this.#onExpiry = onExpiry
  }

  set(id: number, ms: number): void {
    this.wheel.set(this.#at(id), ms, this.now)
    this.due.set(id, this.now + ms)
  }

  clear(id: number): void {
    this.wheel.clear(this.#at(id))
    this.due.delete(id)
  }

  #at(id: number): Numbered {
    return this.#timed[id] ?? new Numbered(id)
  }

  go(ms: number): void {
    this.now += ms
    this.wheel.run(this.now)
    for (const [id, due] of this.due)
      if (due + tickMs < this.now && !this.#justSet.has(id))
        this.faults.push(`${id} is late: ${this.now - due}`)
    this.#justSet.clear()
  }

  /** What callbacks set has its time in the next run at the soonest. */
  readonly #justSet = new Set<number>()

  setByCallback(id: number, ms: number): void {
    this.set(id, ms)
    this.#justSet.add(id)
  }

  #expired(id: number): void {
    const due = this.due.get(id)
    if (due === undefined) this.faults.push(`${id} was not set`)
    else if (due > this.now) this.faults.push(`${id} is early: ${due - this.now}`)
    this.due.delete(id)
    if (this.wheel.isSet(this.#at(id))) this.faults.push(`${id} expires and is set`)
    this.#onExpiry(this, id)
  }

  check(): void {
    if (this.wheel.armed !== this.due.size) this.faults.push('another number is armed')
    for (let id = 0; id < ids; id += 1)
      if (this.wheel.isSet(this.#at(id)) !== this.due.has(id))
        this.faults.push(`isSet(${id})`)
    const next = Math.min(...this.due.values())
    const wait = this.wheel.wait(this.now)
    const limit = Math.max(next - this.now + tickMs, tickMs)
    if (wait > limit) this.faults.push(`waits ${wait} for what is due in ${limit}`)
    if (this.due.size === 0 && wait !== Infinity) this.faults.push(`waits ${wait}`)
    if (next < Infinity && wait < 0) this.faults.push(`waits ${wait}`)
  }
}

const nothing = (): void => {}

/** Each sets the next one anew, and calls the one after that off. */
const meddle = (model: Model, id: number): void => {
  if (id % 2 === 0) model.setByCallback((id + 1) % ids, id * 7)
  model.clear((id + 2) % ids)
}

for (const [what, onExpiry] of [
  ['', nothing],
  [', also when callbacks set and clear others', meddle],
] as const) {
  t.test(`timers expire never early and a tick late at most${what}`, async t => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.nat(1000),
          fc.constant(2 ** 31 * tickMs),
          fc.double({ min: 0, max: 1e9, noNaN: true }),
        ),
        fc.array(step, { maxLength: 60 }),
        (start, steps) => {
          const model = new Model(start, onExpiry)
          for (const one of steps) {
            if (one.kind === 'set') model.set(one.id, one.ms)
            else if (one.kind === 'clear') model.clear(one.id)
            else {
              const wait = Math.min(model.wheel.wait(model.now), round * 4)
              model.go(one.ms === 'wait' ? Math.ceil(wait) : one.ms)
            }
            model.check()
          }
          t.strictSame(model.faults.slice(0, 1), [])
          return model.faults.length === 0
        },
      ),
      { numRuns: 500 },
    )
  })
}

t.test('whoever waits as long as the wheel says comes in time', async t => {
  const model = new Model(3, nothing)
  for (const [id, ms] of [1, 100, round, round + 1, 20 * round].entries())
    model.set(id, ms)
  let turns = 0
  while (model.due.size > 0) {
    model.go(Math.ceil(model.wheel.wait(model.now)))
    turns += 1
  }
  t.strictSame(model.faults, [])
  t.ok(turns < 40, `${turns} turns: a far timer wakes nobody more than once a round`)
})

t.test('what was due first expires first', async t => {
  const expired: number[] = []
  const wheel = new TimerWheel<Numbered>(tickMs, ({ id }) => expired.push(id))
  for (const [id, ms] of [60, 20, 20, 2 * round, 40].entries())
    wheel.set(new Numbered(id), ms, 0)
  wheel.run(3 * round)
  t.strictSame(
    expired.filter(id => id !== 3),
    [1, 2, 4, 0],
  )
  t.ok(expired.includes(3))
})

t.test('many in one slot are looked at once each', async t => {
  let expired = 0
  const count = 100_000
  const wheel = new TimerWheel<Numbered>(tickMs, () => (expired += 1))
  for (let id = 0; id < count; id += 1)
    wheel.set(new Numbered(id), id % 2 === 0 ? 100 : 100 + round * 9, 0)
  wheel.run(120)
  t.equal(expired, count / 2)
  t.equal(wheel.armed, count / 2)
})

t.test('after a callback that throws, the next run goes on with the others', async t => {
  const expired: number[] = []
  const wheel = new TimerWheel<Numbered>(tickMs, ({ id }) => {
    expired.push(id)
    if (id === 1) throw new Error('oh')
  })
  for (const one of numbered(3)) wheel.set(one, 10, 0)
  t.throws(() => wheel.run(50), /oh/)
  t.equal(wheel.wait(50), 0)
  wheel.run(50)
  t.strictSame(expired, [0, 1, 2])
  t.equal(wheel.wait(50), Infinity)
})

t.test('the clock of a loop stands still until the next turn', async t => {
  const clock = new LoopClock(tickMs, 100)
  const calls: string[] = []
  t.equal(clock.now(), 100)
  t.equal(clock.wait(), Infinity)
  const never = clock.setTimeout(() => calls.push('never'), 5)
  clock.setTimeout(() => {
    calls.push(`a at ${clock.now()}`)
    clock.clearTimeout(never)
    clock.setTimeout(() => calls.push(`c at ${clock.now()}`), 0)
  }, 1)
  clock.setTimeout(() => calls.push(`b at ${clock.now()}`), 5)
  t.ok(clock.wait() <= 2 * tickMs)
  clock.enter(112)
  clock.run()
  t.strictSame(calls, ['a at 112', 'b at 112'])
  clock.enter(120)
  clock.run()
  t.strictSame(calls.slice(2), ['c at 120'])
})

t.test(
  'a timer that is over is not confused with the one that has its place',
  async t => {
    const clock = new LoopClock(tickMs, 0)
    let called = 0
    const first = clock.setTimeout(() => (called += 1), 1)
    clock.enter(20)
    clock.run()
    clock.setTimeout(() => (called += 1), 1)
    clock.clearTimeout(first)
    clock.clearTimeout(undefined)
    clock.enter(40)
    clock.run()
    t.equal(called, 2)
  },
)
