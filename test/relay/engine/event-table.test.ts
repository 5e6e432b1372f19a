import assert from 'node:assert/strict'
import * as fc from 'fast-check'
import t, { type Test } from 'tap'
import { EPOLLET, EPOLLIN } from '../../../src/ffi/constants.ts'
import { EventLoop, type EventSource } from '../../../src/relay/engine/event-loop.ts'
import { EventTable } from '../../../src/relay/engine/event-loop.ts'
import { linuxRelaySkip } from '../../support/linux-only.ts'
import { Bench } from './calls-bench.ts'

const skip = linuxRelaySkip()
const F_DUPFD_CLOEXEC = 1030

t.test('an event of an earlier use of a descriptor is nobody’s', async t => {
  const table = new EventTable<string, number>()
  table.open(7, 'first', 10)
  const before = table.generation(7)
  t.equal(table.sourceOf(7, before), 'first')
  table.close(7)
  t.equal(table.sourceOf(7, before), undefined, 'it is closed')
  t.equal(table.sourceOf(7, table.generation(7)), undefined, 'and has no present')
  table.open(7, 'second', 20)
  t.equal(table.sourceOf(7, before), undefined, 'the number is another one’s')
  const now = table.generation(7)
  t.strictSame([table.sourceOf(7, now), table.item(7)], ['second', 20])
  table.pass(7, 'third', 30)
  t.strictSame([table.sourceOf(7, now), table.item(7)], ['third', 30], 'the same use')
  t.equal(table.sourceOf(100_000, 0), undefined, 'of one that was never opened')
})

t.test(
  'what a copy of a closed descriptor has to tell comes to nobody',
  { skip },
  async t => {
    const world = new World(t)
    const one = world.open()
    world.copy(one)
    world.close(one)
    const other = world.open()
    t.equal(other.from, one.from, 'the number is used again')
    t.equal(other.index, one.index)
    world.write(one)
    world.loop.turn(0)
    t.strictSame(world.events, [])
    world.write(other)
    world.loop.turn(0)
    t.strictSame(world.events, [other.index])
  },
)

t.test(
  'events come to whom they are of, whatever is closed and opened meanwhile',
  { skip },
  async t => {
    const world = new World(t)
    const step = fc.oneof(
      fc.record({ kind: fc.constant('open' as const) }),
      fc.record({ kind: fc.constant('turn' as const) }),
      fc.record({
        kind: fc.constantFrom('close' as const, 'write' as const, 'copy' as const),
        which: fc.nat(20),
      }),
      // To be done in the middle of a turn, by whoever has the next event.
      fc.record({
        kind: fc.constantFrom('close-then' as const, 'replace-then' as const),
        which: fc.nat(20),
      }),
    )
    fc.assert(
      fc.property(fc.array(step, { minLength: 20, maxLength: 120 }), steps => {
        for (const one of steps) world.take(one)
        world.take({ kind: 'turn' })
        assert.deepEqual(world.wrong.splice(0), [])
        assert.equal(world.unread(), 0, 'whoever has something was told')
        world.closeAll()
      }),
      { numRuns: 150 },
    )
  },
)

type Step =
  | { readonly kind: 'open' }
  | { readonly kind: 'turn' }
  | {
      readonly kind: 'close' | 'write' | 'copy' | 'close-then' | 'replace-then'
      readonly which: number
    }

/** A pipe whose reading end is watched under an index. */
interface Watched {
  readonly from: number
  readonly into: number
  readonly index: number
}

/** Pipes of a loop that reads what there is and checks that there was something. */
class World implements EventSource<number> {
  readonly loop: EventLoop
  readonly events: number[] = []
  readonly wrong: string[] = []
  readonly #bench: Bench
  readonly #open: (Watched | undefined)[] = []
  readonly #free: number[] = []
  readonly #then: (() => void)[] = []
  /** Copies as a child of this process has, and writing ends. */
  readonly #others: number[] = []

  constructor(t: Test) {
    this.#bench = new Bench(t)
    this.loop = new EventLoop(this.#bench.calls, this.#bench.layout, () =>
      performance.now(),
    )
    t.teardown(() => this.loop.close())
  }

  open(): Watched {
    const [from, into] = this.#bench.pipe()
    const index = this.#free.pop() ?? this.#open.length
    const opened = { from, into, index }
    this.#open[index] = opened
    assert.equal(this.loop.add(from, this, index, EPOLLIN | EPOLLET), 0)
    return opened
  }

  close({ from, into, index }: Watched): void {
    this.#open[index] = undefined
    this.#free.push(index)
    this.loop.closing(from)
    this.#bench.close(from)
    this.#others.push(into)
  }

  copy({ from }: Watched): void {
    this.#others.push(this.#bench.keep(this.#bench.calls.fcntl(from, F_DUPFD_CLOEXEC, 0)))
  }

  write({ into }: Watched): void {
    this.#bench.write(into, 'x')
  }

  take(step: Step): void {
    if (step.kind === 'open') return void this.open()
    if (step.kind === 'turn') return this.loop.turn(0)
    const there = this.#open.filter(one => one !== undefined)
    const one = there[step.which % Math.max(there.length, 1)]
    if (one === undefined) return
    switch (step.kind) {
      case 'close':
        return this.close(one)
      case 'write':
        return this.write(one)
      case 'copy':
        return this.copy(one)
      case 'close-then':
      case 'replace-then':
        this.#then.push(() => {
          if (this.#open[one.index] !== one) return
          this.close(one)
          if (step.kind === 'replace-then') this.open()
        })
    }
  }

  ready(index: number): void {
    this.events.push(index)
    const one = this.#open[index]
    const heard = one === undefined ? 'it is closed' : this.#bench.read(one.from)
    if (typeof heard !== 'string' || heard[0] !== 'x')
      this.wrong.push(`${index}: ${heard}`)
    for (const then of this.#then.splice(0)) then()
  }

  failed(index: number, error: unknown): void {
    this.wrong.push(`${index}: ${String(error)}`)
  }

  /** How many have something to be read that they were not told of. */
  unread(): number {
    return this.#open.filter(one => one && typeof this.#bench.read(one.from) === 'string')
      .length
  }

  closeAll(): void {
    this.#then.length = 0
    for (const one of this.#open) if (one !== undefined) this.close(one)
    for (const fd of this.#others.splice(0)) this.#bench.close(fd)
  }
}
