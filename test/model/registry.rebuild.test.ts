import assert from 'node:assert/strict'
import * as fc from 'fast-check'
import t from 'tap'
import { Registry } from '../../src/model/registry.ts'
import { SortedMap } from '../../src/model/sorted-map.ts'
import { gone, put, service } from '../support/objects.ts'

const numbered = (index: number, affinityMs = 0) =>
  put(
    service(`web-${index}`, {
      clusterIPs: [`10.0.${index >> 8}.${index & 255}`],
      affinityMs,
    }),
  )
const indices = Array.from({ length: 1000 }, (_, index) => index)

/** Rebuilding piecemeal, and the map that makes a small change cheap. */
t.test('a list that is rebuilt', async t => {
  t.test('a rebuild in steps comes to its end and to the same snapshot', async t => {
    const registry = new Registry()
    registry.apply(indices.map(index => numbered(index)))
    let calls = 1
    while (!registry.rebuild(() => false)) calls++
    t.ok(calls > 900, 'a Service at a time, after their claims')
    const whole = new Registry()
    whole.apply(indices.map(index => numbered(index)))
    t.strictSame(
      [...registry.snapshot('IPv4').servicePorts],
      [...whole.snapshot('IPv4').servicePorts],
    )
  })

  t.test('a rebuild goes on for as long as it may', async t => {
    const registry = new Registry()
    t.ok(registry.rebuild(), 'nothing to do')
    registry.apply(indices.map(index => numbered(index)))
    let asked = 0
    t.notOk(registry.rebuild(() => ++asked < 100))
    t.equal(asked >= 100, true)
    t.ok(registry.rebuild())
  })

  t.test('a snapshot in the middle of a rebuild is whole', async t => {
    const registry = new Registry()
    registry.apply(indices.map(index => numbered(index)))
    registry.rebuild(() => false)
    t.equal(registry.snapshot('IPv4').servicePorts.size, 1000)
    t.ok(registry.rebuild(() => false))
  })

  t.test('an old snapshot does not see what is rebuilt', async t => {
    const registry = new Registry()
    registry.apply(indices.map(index => numbered(index)))
    const before = registry.snapshot('IPv4').servicePorts
    registry.apply([numbered(5, 1), gone('Service', 'web-6')])
    registry.rebuild()
    t.equal(before.size, 1000)
    t.equal(before.get('default/web-5:http/TCP')?.affinityMs, 0)
    t.equal(registry.snapshot('IPv4').servicePorts.size, 999)
  })

  t.test('a sorted map is a Map with its keys in order', async () => {
    const key = fc.stringMatching(/^[a-e]{0,2}$/)
    const edits = fc.array(fc.tuple(key, fc.option(fc.nat(3), { nil: undefined })))
    fc.assert(
      fc.property(fc.array(edits), all => {
        let map = SortedMap.empty<number>()
        const model = new Map<string, number>()
        for (const list of all) {
          const before = [...map]
          const next = map.with(new Map(list))
          for (const [name, value] of new Map(list)) {
            if (value === undefined) model.delete(name)
            else model.set(name, value)
          }
          assert.deepEqual([...map], before, 'the old one stays as it was')
          const sorted = [...model].toSorted(([a], [b]) => (a < b ? -1 : 1))
          assert.deepEqual([...next], sorted)
          assert.equal(next === map, JSON.stringify(before) === JSON.stringify(sorted))
          assert.deepEqual(
            [...next.keys()],
            sorted.map(([name]) => name),
          )
          assert.deepEqual(
            [...next.values()],
            sorted.map(([, value]) => value),
          )
          const visited: [string, number][] = []
          next.forEach((value, name) => visited.push([name, value]))
          assert.deepEqual(visited, sorted)
          assert.equal(next.size, model.size)
          for (const name of ['', 'a', 'bb', 'e', 'zz']) {
            assert.equal(next.get(name), model.get(name))
            assert.equal(next.has(name), model.has(name))
          }
          map = next
        }
      }),
      { numRuns: 300 },
    )
  })
})
