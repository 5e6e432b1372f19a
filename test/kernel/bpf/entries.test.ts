import { setImmediate } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { loadBpfCall } from '../../../src/ffi/bpf-call.ts'
import { Bpf, type MapDefinition } from '../../../src/kernel/bpf/bpf.ts'
import { skip } from '../connect-time/group.ts'

const keyOf = (n: number): string => String(n).padStart(8)
const valueOf = (n: number): string => String(n).padStart(16)

const makeMap = (t: Test, type: MapDefinition['type'], call = loadBpfCall()) => {
  const bpf = new Bpf(call)
  const definition = { name: 'us_test', type, keySize: 8, valueSize: 16, entries: 20_000 }
  const map = bpf.createMap(definition)
  t.teardown(() => bpf.close(map))
  const keys = bpf.allocate(8 * 10_000)
  const values = bpf.allocate(16 * 10_000)
  const add = (from: number, to: number): void => {
    for (let n = from; n < to; n += 1) {
      keys.bytes.write(keyOf(n), (n - from) * 8, 'latin1')
      values.bytes.write(valueOf(n), (n - from) * 16, 'latin1')
    }
    bpf.updateBatch(map, keys, values, to - from)
  }
  const remove = (n: number): void => {
    keys.bytes.write(keyOf(n), 'latin1')
    bpf.delete(map, keys)
  }
  const read = (lotSize?: number) => bpf.entries(map, definition, lotSize)
  return { add, remove, read }
}

const numbered = (from: number, to: number): Elements =>
  Array.from({ length: to - from }, (_, i) => [keyOf(from + i), valueOf(from + i)])

type Elements = (readonly [key: string, value: string])[]
/** The kernel's order is that of its buckets. */
const sorted = (elements: Iterable<Elements[number]>): Elements =>
  [...elements].toSorted(([one], [other]) => (one < other ? -1 : 1))

for (const type of ['hash', 'lruHash'] as const)
  t.test(`all elements of a map: ${type}`, { skip }, async t => {
    const { add, read } = makeMap(t, type)
    t.same([...read()], [], 'empty')
    add(0, 1)
    t.same([...read()], numbered(0, 1), 'one')
    add(1, 10_000)
    const found = [...read()]
    t.same(sorted(found), numbered(0, 10_000))
    t.same(sorted(read(10_000)), sorted(found), 'in one lot')
  })

t.test('a bucket that is larger than a lot', { skip }, async t => {
  const real = loadBpfCall()
  const ENOSPC = -28
  let tooSmall = 0
  const { add, read } = makeMap(t, 'hash', {
    allocate: bytes => real.allocate(bytes),
    call: (...given) => {
      const result = real.call(...given)
      if (result === ENOSPC) tooSmall += 1
      return result
    },
  })
  add(0, 10_000)
  t.same(sorted(read(1)), numbered(0, 10_000))
  t.ok(tooSmall > 0, `${tooSmall} times`)
})

t.test('elements that come and go meanwhile', { skip }, async t => {
  const { add, remove, read } = makeMap(t, 'hash')
  add(0, 10_000)
  const staying = numbered(0, 5000)
  const found: string[] = []
  let steps = 0
  for (const [key] of read(64)) {
    if (Number(key) < 5000) found.push(key)
    remove(5000 + (steps % 5000))
    add(10_000 + (steps % 5000), 10_001 + (steps % 5000))
    steps += 1
    if (steps % 1000 === 0) await setImmediate()
  }
  t.same(
    found.toSorted(),
    staying.map(([key]) => key),
    'those that stay come once',
  )
})

t.test('what is no map is a failure', { skip }, async t => {
  const bpf = new Bpf()
  const definition = { name: 'us_test', type: 'hash', keySize: 8, valueSize: 8 } as const
  t.throws(() => [...bpf.entries(1_000_000, { ...definition, entries: 10 })], {
    code: 'EBADF',
  })
})
