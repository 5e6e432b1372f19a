import assert from 'node:assert/strict'
import * as fc from 'fast-check'
import t from 'tap'
import { OwnCell } from '../../src/balance/cell.ts'
import { noCooldown, noRecovery } from '../../src/balance/cooldown.ts'
import type { Backend } from '../../src/relay/front.ts'
import { clientKey } from '../../src/relay/client-table.ts'
import {
  ConnectionLimiter,
  limiterFor,
  newLimiterMemory,
} from '../../src/relay/connection-limiter.ts'
import { CountedEndpoints } from '../../src/relay/counted-endpoints.ts'
import { explainPick } from '../../src/relay/explain-pick.ts'
import type { WorkerView } from '../../src/relay/explanation.ts'
import { ListenerEndpoints } from '../../src/relay/listener-endpoints.ts'
import { NodeClientSet } from '../../src/relay/node-clients.ts'
import { holdsClients } from '../../src/relay/open-fronts.ts'
import { bindKey, type RelayListener } from '../../src/relay/relay.ts'
import { newSharedPlaces } from '../../src/relay/shared-places.ts'
import { rangesOf } from '../../src/util/address-ranges.ts'
import { addressWords } from '../../src/util/cidr.ts'
import {
  endpoint,
  frontOf,
  listenerSpec,
  ownCounters,
  ownQueues,
} from '../support/relay-fixture.ts'

const bind = { address: '10.96.0.10', port: 80 }
const dialled = bind.address
/** One of them is on this node, one is in no source range. */
const clients = ['10.0.0.1', '10.0.0.2', '10.0.0.3', '192.0.2.1']

/** The same at each run (a linear congruential generator). */
const seeded = (seed: number): (() => number) => {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

/** The endpoints of a listener, as a worker has them. */
class State extends ListenerEndpoints<Backend> {
  readonly clock: { time: number; now: () => number }
  readonly #counted = new CountedEndpoints()
  readonly #limiter = new ConnectionLimiter(newLimiterMemory())

  constructor(seed: number) {
    const clock = { time: 20_000, now: () => clock.time }
    const nodeClients = new NodeClientSet()
    nodeClients.set({ addresses: ['10.0.0.3'], cidrs: [] })
    const limits = { udpReplyTimeout: 5000, tcpIdleTimeout: 0 }
    super(clock, seeded(seed), nodeClients, limits, ownQueues, ownCounters())
    this.clock = clock
  }

  take(spec: RelayListener): void {
    this.#counted.take(spec)
    this.takeEndpoints(
      spec,
      (one, _index, known) => known ?? newBackend(one),
      this.#counted.memory,
    )
    this.limiter = limiterFor(this.#limiter, spec)
    if (holdsClients(spec)) this.places ??= newSharedPlaces()
  }

  protected override reportAllFailed(): void {}

  view(client: string): WorkerView {
    const query = { listener: 'test', bind, client, dialled }
    const [view] = explainPick(this, 1, query).workers
    assert.ok(view)
    return view
  }

  /** What becomes of a client that comes, by what relays do with one: an endpoint, or why it has none. */
  come(client: string): Backend | string {
    const choice = this.fronts.at(bindKey(bind))?.admit(client, dialled)
    if (choice === undefined) return 'turned away'
    const key = clientKey(addressWords(client) ?? [])
    const broken = this.limiter?.take(key, this.clock.time)
    if (broken !== undefined) return broken
    if (this.paused) return 'waits'
    const found = this.capacity.pick(client, undefined, choice.among)
    return found === 'full' ? 'queues' : (found ?? 'waits')
  }
}

const newBackend = (one: ReturnType<typeof endpoint>): Backend => ({
  ...one,
  active: 0,
  failures: 0,
  cooldown: new OwnCell(noCooldown),
  recovery: new OwnCell(noRecovery),
  replies: undefined,
  get connections() {
    return this.places?.taken ?? this.active
  },
})

const some = <T>(arb: fc.Arbitrary<T>) => fc.option(arb, { nil: undefined, freq: 2 })

const anyListener = fc
  .record({
    endpoints: fc.array(
      fc.record({
        tier: fc.constantFrom(undefined, undefined, 0, 1, 2),
        weight: fc.constantFrom(undefined, undefined, 0, 1, 2, 5),
        place: fc.constantFrom('all', 'all', 'drained', 'others', 'node'),
      }),
      { minLength: 1, maxLength: 10 },
    ),
    by: fc.constantFrom('round-robin', 'least-connections', 'random', 'maglev'),
    slowStartMs: fc.constantFrom(0, 5000),
    affinityMs: fc.constantFrom(0, 2000),
    capacity: some(
      fc.record({
        maxConnections: fc.integer({ min: 1, max: 3 }),
        queueMs: fc.constantFrom(0, 1000),
        mostQueued: fc.constant(1),
      }),
    ),
    limits: some(
      fc.record({
        routeConnections: some(fc.integer({ min: 1, max: 6 })),
        routeRate: some(fc.integer({ min: 1, max: 5 })),
        clientConnections: some(fc.integer({ min: 1, max: 3 })),
        clientRate: some(fc.integer({ min: 1, max: 3 })),
      }),
    ),
    holdMs: fc.constantFrom(0, 1000),
    paused: fc.constantFrom(false, false, false, true),
    isSelective: fc.boolean(),
  })
  .map(({ endpoints, by, slowStartMs, holdMs, isSelective, ...rest }): RelayListener => {
    const listed = endpoints.map(({ tier, weight }, i) => ({
      ...endpoint(`10.1.0.${i + 1}`, 80),
      ...(tier !== undefined && { tier }),
      ...(weight !== undefined && { weight }),
    }))
    const of = (...places: readonly string[]) =>
      listed.filter((_, i) => places.includes(endpoints[i]?.place ?? ''))
    const keys = of('all', 'drained', 'node').map(({ key }) => key)
    const onNode = of('node').map(({ key }) => key)
    return listenerSpec({
      ...rest,
      endpoints: listed,
      drained: of('drained').map(({ key }) => ({ key, close: 'none' })),
      fronts: [
        frontOf([bind], {
          endpoints: keys.length === listed.length ? 'all' : keys,
          endpointsFromNode: onNode.length > 0 ? onNode : undefined,
          allowedClients: isSelective ? rangesOf(['10.0.0.0/8']) : undefined,
        }),
      ],
      balance: { by, slowStartMs },
      retry: { earlyClose: true, replay: 0, holdMs },
    })
  })

const anyStep = fc.oneof(
  { weight: 4, arbitrary: fc.record({ come: fc.constantFrom(...clients) }) },
  { weight: 1, arbitrary: fc.record({ fail: fc.nat(9) }) },
  { weight: 1, arbitrary: fc.record({ serve: fc.nat(9) }) },
  { weight: 1, arbitrary: fc.record({ leave: fc.nat(5) }) },
  { weight: 1, arbitrary: fc.record({ pass: fc.constantFrom(10, 700, 3000, 12_000) }) },
)

type Step =
  | { readonly come: string }
  | { readonly fail: number }
  | { readonly serve: number }
  | { readonly leave: number }
  | { readonly pass: number }

/** Takes steps, and tells of each client what became of it. */
const take = (
  state: State,
  steps: readonly Step[],
  came: (client: string, come: () => string) => void,
): void => {
  const open: { readonly client: string; readonly backend: Backend | undefined }[] = []
  for (const step of steps) {
    if ('pass' in step) state.clock.time += step.pass
    else if ('come' in step)
      came(step.come, () => {
        const found = state.come(step.come)
        if (typeof found === 'string') return found
        found.active += 1
        state.connected(step.come, found)
        open.push({ client: step.come, backend: found })
        return found.key
      })
    else if ('leave' in step) {
      const [left] = open.splice(step.leave, 1)
      if (left?.backend === undefined) continue
      left.backend.active -= 1
      left.backend.places?.free()
      const key = clientKey(addressWords(left.client) ?? [])
      state.limiter?.ended(key, state.clock.time)
    } else {
      const which = 'fail' in step ? step.fail : step.serve
      const backend = state.listed[which % state.listed.length]
      if (backend === undefined) continue
      if ('fail' in step) state.failed(backend, 1000, 'refused')
      else state.served(backend)
    }
  }
}

const check = (view: WorkerView, found: string): void => {
  const { outcome, reason, waitMs, candidates, affinity, endpoints } = view
  const said = `${JSON.stringify(view)}, and it was ${found}`
  assert.equal(waitMs > 0, outcome === 'waits' || outcome === 'queues', said)
  if (found.startsWith('10.')) {
    assert.equal(outcome, 'served', said)
    assert.ok(candidates.includes(found), said)
    if (candidates.length === 1) assert.equal(candidates[0], found, said)
    for (const key of candidates)
      if (key !== affinity?.key)
        assert.equal(endpoints.find(one => one.key === key)?.against, '', said)
    return
  }
  assert.equal(candidates.length, 0, said)
  if (found === 'turned away') assert.match(reason, /^(not allowed|no endpoint)$/, said)
  else if (found === 'queues') assert.equal(reason, 'full', said)
  else if (found === 'waits') assert.match(reason, /^(paused|no endpoint)$/, said)
  else assert.equal(reason, found, said)
}

t.test('what is explained is what comes of it, and changes nothing', async () => {
  const seen = new Map<string, number>()
  const oneOf = fc.array(anyStep, { minLength: 5, maxLength: 60 })
  fc.assert(
    fc.property(
      fc.array(anyListener, { minLength: 1, maxLength: 3 }),
      oneOf,
      fc.nat(),
      (listeners, steps, seed) => {
        const [explained, left] = [new State(seed), new State(seed)]
        for (const spec of listeners) {
          explained.take(spec)
          left.take(spec)
          const wanted: string[] = []
          take(left, steps, (_client, come) => void wanted.push(come()))
          const got: string[] = []
          take(explained, steps, (client, come) => {
            const view = explained.view(client)
            assert.deepEqual(explained.view(client), view, 'again')
            for (const other of clients) explained.view(other)
            const found = come()
            got.push(found)
            check(view, found)
            seen.set(view.outcome, (seen.get(view.outcome) ?? 0) + 1)
          })
          assert.deepEqual(got, wanted, 'as without being explained')
        }
      },
    ),
    { numRuns: 300 },
  )
  for (const outcome of ['served', 'waits', 'queues', 'refused'])
    assert.ok((seen.get(outcome) ?? 0) > 30, `${outcome}: ${seen.get(outcome)}`)
})

t.test('in turns, who has nothing against it is who gets clients', async () => {
  let unequal = 0
  fc.assert(
    fc.property(anyListener, fc.array(anyStep, { maxLength: 20 }), (spec, steps) => {
      const state = new State(1)
      const plain = {
        affinityMs: 0,
        limits: undefined,
        capacity: undefined,
        paused: false,
      }
      const balance = { by: 'round-robin' } as const
      state.take({ ...spec, ...plain, balance })
      take(state, steps, (_client, come) => void come())
      const { endpoints, outcome } = state.view('10.0.0.1')
      const wanted = endpoints.filter(({ against }) => against === '')
      const got = new Set<string>()
      for (let i = 0; i < 200; i += 1) {
        const found = state.come('10.0.0.1')
        if (typeof found === 'string') continue
        got.add(found.key)
        state.served(found)
      }
      assert.equal(outcome === 'served', got.size > 0)
      const keys = wanted.map(({ key }) => key).toSorted()
      const said = JSON.stringify(endpoints)
      // Of those that have all failed the first that is served is preferred from then on.
      if (wanted.some(({ failures }) => failures > 0))
        for (const key of got) assert.ok(keys.includes(key), said)
      else assert.deepEqual(keys, [...got].toSorted(), said)
      if (wanted.length < endpoints.length) unequal += 1
    }),
    { numRuns: 500 },
  )
  assert.ok(unequal > 50)
})
