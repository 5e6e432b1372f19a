import * as fc from 'fast-check'
import t from 'tap'
import { decode } from '../../../src/source/decode/decode.ts'
import { ApiError } from '../../../src/source/kubernetes/api-error.ts'
import { Backoff } from '../../../src/util/backoff.ts'
import { reflectorBackoff } from '../../../src/source/kubernetes/reflector.ts'
import { LineSplitter, ListParser } from '../../../src/source/kubernetes/json-stream.ts'
import { RateLimit } from '../../../src/source/kubernetes/api-client.ts'
import { isOlder } from '../../../src/source/kubernetes/stored-object.ts'
import { statusOf } from '../../support/api-server/api-error.ts'
import {
  endpoint,
  serviceObject,
  sliceObject,
} from '../../support/api-server/builders.ts'
import { tooLarge } from '../../support/api-server/refusals.ts'
import type { ApiServer } from '../../support/api-server/server.ts'
import type { Disturbance } from '../../support/api-server/watch.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import { fixture, nameOf } from './fixture.ts'

const cutAt = (text: string, cuts: readonly number[]): Buffer[] => {
  const bytes = Buffer.from(text)
  const at = [0, ...cuts.map(n => n % (bytes.length + 1)), bytes.length]
  at.sort((a, b) => a - b)
  return at.slice(1).map((end, i) => bytes.subarray(at[i], end))
}
const cuts = fc.array(fc.nat(), { maxLength: 8 })

t.test('a list is the same however it is cut, whatever is in it', async t => {
  const list = fc.record({
    kind: fc.constant('items'),
    metadata: fc.record({ resourceVersion: fc.string(), items: fc.array(fc.string()) }),
    items: fc.array(fc.object({ withBoxedValues: false, maxDepth: 3 })),
    more: fc.jsonValue(),
  })
  const indent = fc.constantFrom(0, 1)
  fc.assert(
    fc.property(list, cuts, indent, (given, at, space) => {
      const items: unknown[] = []
      const parser = new ListParser(item => items.push(item))
      const text = JSON.stringify(given, undefined, space)
      for (const part of cutAt(text, at)) parser.push(part)
      const { metadata } = parser.end()
      t.strictSame(
        { metadata, items },
        JSON.parse(JSON.stringify({ metadata: given.metadata, items: given.items })),
      )
    }),
    { numRuns: 100 },
  )
})

t.test('a list that is not complete, or too large, is refused', async t => {
  const parse = (text: string) => {
    const parser = new ListParser(() => {})
    parser.push(Buffer.from(text))
    return parser.end()
  }
  t.throws(() => parse('{"items":[{"a":1}'), /the list ended early/)
  t.throws(() => parse('{"items":[{"a":'), /the list ended early/)
  t.throws(() => parse('<html>'), /the list ended early/)
  t.throws(() => parse('"x"'), /the list ended early/)
  t.throws(() => parse(`{"items":[{"a":"${'x'.repeat(5 << 20)}`), /more than 4 MiB/)
  t.throws(() => parse(`{"x":"${'x'.repeat(1 << 20)}`), /not a list/)
})

t.test('lines are the same however they are cut', async t => {
  fc.assert(
    fc.property(fc.array(fc.string({ unit: 'grapheme' })), cuts, (given, at) => {
      const lines = given.map(line => `x${line.replaceAll(/[\r\n]/g, '')}`)
      const splitter = new LineSplitter()
      const found: string[] = []
      for (const part of cutAt(lines.map(line => `${line}\n`).join(''), at))
        found.push(...splitter.push(part))
      t.strictSame(found, lines)
      t.equal(splitter.rest, 0)
    }),
    { numRuns: 50 },
  )
})

t.test(
  'resourceVersions are compared as numbers, and not at all if they are none',
  async t => {
    t.ok(isOlder('9', '10'))
    t.notOk(isOlder('10', '9'))
    t.notOk(isOlder('10', '10'))
    t.notOk(isOlder('', '10'))
    t.notOk(isOlder('9', 'abc'))
    t.ok(isOlder('18446744073709551614', '18446744073709551615'))
  },
)

t.test('a server that is behind is known by the cause it names', async t => {
  const said = (error: object) => new ApiError(504, error).behind
  t.ok(said(statusOf(tooLarge(9, 3))))
  // Only busy: it says the same of its cache (apiserver, storage/cacher/delegator.go).
  t.notOk(said({ message: 'Timeout: Too large resource version: 9, current: 3' }))
  t.notOk(said({ details: { causes: 'ResourceVersionTooLarge' } }))
})

t.test('waits double from 0.8 s to 30 s, with jitter', async t => {
  for (const random of [0, 0.999]) {
    const backoff = new Backoff({ ...reflectorBackoff, random: () => random })
    const waits = Array.from({ length: 20 }, () => backoff.next())
    t.equal(waits[0], 800 * (1 + random))
    t.equal(waits[1], 1600 * (1 + random))
    t.equal(waits.at(-1), 15_000 * (1 + random))
    backoff.reset()
    t.equal(backoff.next(), 800 * (1 + random))
    t.equal(backoff.next(5000), 5000 * (1 + random))
  }
})

t.test('requests are 10 in a row and 5 a second, unless told', async t => {
  const clock = new FakeClock()
  const rounds = async (limit: RateLimit, ms: number): Promise<number> => {
    const abort = new AbortController()
    let taken = 0
    const loop = async () => {
      for (; taken < 1000; taken++) await limit.take(abort.signal)
    }
    const end = loop().catch(() => {})
    for (let i = 0; i < ms / 10; i++) {
      await new Promise(setImmediate)
      clock.advance(10)
    }
    await new Promise(setImmediate)
    abort.abort()
    await end
    return taken
  }
  t.equal(await rounds(new RateLimit(clock), 2000), 20)
  t.equal(await rounds(new RateLimit(clock, 50, 1), 1000), 51)
  t.equal(await rounds(new RateLimit(clock, -1), 1000), 1000)
})

/** What the server holds, as the world should have it. */
const held = (api: ApiServer): Map<string, unknown> =>
  new Map(
    ['services', 'endpointslices', 'servicecidrs']
      .flatMap(resource => api.objects(resource))
      .flatMap(object => {
        const result = decode(object)
        return 'changes' in result ? result.changes : []
      })
      .map(change => [nameOf(change), change.object]),
  )

const textOf = (objects: ReadonlyMap<string, unknown>): string =>
  JSON.stringify([...objects].toSorted(([a], [b]) => (a < b ? -1 : 1)))

const disturbances: Disturbance[] = [
  'close',
  'truncate',
  'fin',
  'garbage',
  'duplicate',
  'stale',
  'gone',
]
const index = fc.nat({ max: 5 })
const step = fc.oneof(
  fc.record({
    do: fc.constant('service' as const),
    i: index,
    port: fc.integer({ min: 1, max: 3 }),
  }),
  fc.record({
    do: fc.constant('slice' as const),
    i: index,
    port: fc.integer({ min: 1, max: 3 }),
  }),
  fc.record({ do: fc.constant('delete' as const), i: index }),
  fc.record({
    do: fc.constant('disturb' as const),
    how: fc.constantFrom(...disturbances),
  }),
  fc.record({
    do: fc.constant('fail' as const),
    code: fc.constantFrom(410, 429, 500, 503),
  }),
  fc.record({ do: fc.constantFrom('compact', 'reload', 'wait') }),
)

type Step = typeof step extends fc.Arbitrary<infer T> ? T : never

t.test('whatever happens, at quiet the world is what the server holds', async t => {
  const run = async (
    streamingLists: 'on' | 'refused',
    goneAs: 'status' | 'event',
    steps: readonly Step[],
  ): Promise<void> => {
    const f = await fixture(t, { streamingLists, goneAs, bookmarkEveryMs: 50 })
    const { api, world, clock, source } = f
    await f.sync()
    const same = () => textOf(held(api)) === textOf(world.objects)
    for (const each of steps) {
      if (each.do === 'service') {
        const ports = [{ port: each.port }]
        api.apply(serviceObject(`s${each.i}`, `10.96.0.${each.i}`, { spec: { ports } }))
      } else if (each.do === 'slice')
        api.apply(
          sliceObject(`s${each.i}`, `s${each.i}-1`, [endpoint(`10.244.0.${each.port}`)]),
        )
      else if (each.do === 'delete') {
        api.delete('services', `s${each.i}`)
        api.delete('endpointslices', `s${each.i}-1`)
      } else if (each.do === 'disturb') api.disturb(each.how)
      else if (each.do === 'fail')
        api.faults.add({ kind: 'status', code: each.code }, { times: 2 })
      else if (each.do === 'compact') api.compact()
      else if (each.do === 'reload') source.reload()
      else
        for (let i = 0; i < 5; i++) {
          await new Promise(resolve => setTimeout(resolve, 2))
          clock.advance(300)
        }
    }
    try {
      await clock.pump('the world of the server', same, 200)
    } catch (error) {
      const log = [...world.log, JSON.stringify(source.status())]
      throw new Error(log.join('\n'), { cause: error })
    } finally {
      await f.close()
      api.close()
    }
  }
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom('on' as const, 'refused' as const),
      fc.constantFrom('status' as const, 'event' as const),
      fc.array(step, { minLength: 5, maxLength: 40 }),
      run,
    ),
    { numRuns: Number(process.env['KUBERNETES_MODEL_RUNS'] ?? 15), endOnFailure: true },
  )
  t.pass()
})
