import assert from 'node:assert/strict'
import * as fc from 'fast-check'
import t from 'tap'
import { ConnectionQueue, type Waiting } from '../../src/relay/connection-queue.ts'
import { newQueueTickets, QueueTickets } from '../../src/relay/queue-tickets.ts'
import { newSharedPlaces, SharedPlaces } from '../../src/relay/shared-places.ts'

const workers = 3
/** Endpoints of two kinds, and clients that may have one kind or the other. */
const kinds = [0, 1] as const

class Client implements Waiting {
  readonly choice: number
  readonly number: number
  readonly #model: Model
  readonly worker: number
  isServed = false

  constructor(model: Model, worker: number, choice: number, number: number) {
    this.#model = model
    this.worker = worker
    this.choice = choice
    this.number = number
  }

  leaveForPlace(): boolean {
    if (!this.#model.places[this.choice]?.take(1)) return false
    this.#model.queueOf(this.worker).leave(this)
    this.#model.serve(this)
    return true
  }

  leave(): void {
    this.#model.queueOf(this.worker).leave(this)
  }

  look(): void {
    this.#model.queueOf(this.worker).placeFreed()
  }
}

/** Workers take turns as chance has it; a worker that is woken hears of it later. */
class Model {
  readonly places = kinds.map(() => newSharedPlaces())
  readonly served: Client[] = []
  readonly waiting = new Set<Client>()
  readonly #tickets = newQueueTickets(workers)
  readonly #waitingPlaces = newSharedPlaces()
  readonly #queues: ConnectionQueue[]
  readonly #woken: number[] = []
  #clients = 0

  constructor() {
    this.#queues = Array.from({ length: workers }, (_, i) => this.#newQueue(i))
  }

  #newQueue(worker: number): ConnectionQueue {
    const shared = {
      tickets: new QueueTickets(this.#tickets.memory, worker + 1),
      places: new SharedPlaces(this.#waitingPlaces.memory),
    }
    const hasPlace = (): boolean => this.places.some(({ taken }) => taken === 0)
    return new ConnectionQueue(shared, hasPlace, one => this.#woken.push(one - 1))
  }

  queueOf(worker: number): ConnectionQueue {
    const queue = this.#queues[worker]
    assert(queue)
    return queue
  }

  come(worker: number, choice: number): void {
    this.#clients += 1
    const one = new Client(this, worker, choice, this.#clients)
    assert(this.queueOf(worker).join(one, 100))
    this.waiting.add(one)
    one.look()
  }

  serve(one: Client): void {
    this.waiting.delete(one)
    one.isServed = true
    this.served.push(one)
  }

  /** The connection that has it ends, in whatever worker. */
  end(kind: number, worker: number): void {
    const { places } = this
    if (places[kind]?.taken !== 1) return
    places[kind].free()
    this.queueOf(worker).placeFreed()
  }

  leave(which: number): void {
    const one = [...this.waiting][which % Math.max(this.waiting.size, 1)]
    if (one === undefined) return
    this.waiting.delete(one)
    one.leave()
  }

  wakeOne(): void {
    const worker = this.#woken.shift()
    if (worker !== undefined) this.queueOf(worker).woken()
  }

  settle(): void {
    for (let i = 0; this.#woken.length > 0; i += 1) {
      assert(i < 1000, 'workers wake each other for ever')
      this.wakeOne()
    }
  }

  /** Who could be served is. */
  check(): void {
    for (const { choice } of this.waiting) assert.equal(this.places[choice]?.taken, 1)
    assert.equal(this.queueOf(0).length, this.waiting.size)
  }
}

const worker = fc.nat(workers - 1)
const anyKind = fc.constantFrom(...kinds)
type Step = ['come' | 'end' | 'leave' | 'wake', number, 0 | 1]
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.tuple(fc.constant('come' as const), worker, anyKind),
  fc.tuple(fc.constant('end' as const), worker, anyKind),
  fc.tuple(fc.constant('leave' as const), fc.nat(9), anyKind),
  fc.tuple(fc.constant('wake' as const), worker, anyKind),
)

/** Found by chance, once in 50,000 and in 200,000 runs: who was passed over stayed so. */
const passedOver: [Step[]][] = [
  // One came between two of another worker, of whom the first is served.
  [
    [
      ['come', 0, 1],
      ['come', 2, 1],
      ['end', 0, 1],
      ['come', 0, 0],
      ['come', 2, 1],
    ],
  ],
  // The same, and the first leaves while its worker is woken for it.
  [
    [
      ['come', 0, 0],
      ['come', 0, 0],
      ['come', 0, 1],
      ['come', 1, 0],
      ['come', 0, 1],
      ['end', 1, 0],
      ['leave', 0, 0],
    ],
  ],
]

t.test('nobody waits while there is a place, whatever happens in what order', async t => {
  const holds = fc.property(fc.array(step, { maxLength: 60 }), steps => {
    const model = new Model()
    for (const [what, which, kind] of steps) {
      if (what === 'come') model.come(which, kind)
      else if (what === 'end') model.end(kind, which)
      else if (what === 'leave') model.leave(which)
      else model.wakeOne()
    }
    model.settle()
    model.check()
  })
  t.doesNotThrow(() => fc.assert(holds, { numRuns: 2000, examples: passedOver }))
})

t.test(
  'where all may have the same, they are served in the order in which they came',
  async t => {
    const holds = fc.property(
      fc.array(fc.tuple(worker, worker), { maxLength: 30 }),
      list => {
        const model = new Model()
        model.places[1]?.take(1)
        for (const [own] of list) model.come(own, 0)
        for (const [, other] of list) {
          model.settle()
          model.end(0, other)
        }
        model.settle()
        const order = model.served.map(({ number }) => number)
        assert.deepEqual(
          order,
          list.map((_, i) => i + 1),
        )
      },
    )
    t.doesNotThrow(() => fc.assert(holds, { numRuns: 500 }))
  },
)

t.test('a worker that was not offered a place serves nobody', async t => {
  const model = new Model()
  model.come(0, 0)
  model.come(1, 0)
  model.places[0]?.free()
  model.queueOf(1).woken()
  t.equal(model.served.length, 1)
  model.queueOf(0).placeFreed()
  model.settle()
  t.equal(model.served.length, 2)
})
