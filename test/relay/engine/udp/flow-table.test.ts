import t from 'tap'
import { FlowTable, type TableFlow } from '../../../../src/relay/engine/udp/flow-table.ts'

interface Flow extends TableFlow {
  alike: this | undefined
}

const flow = (hash: number, ...words: number[]): Flow => ({
  hash,
  name: Int32Array.from(words),
  destination: undefined,
  alike: undefined,
})

/** What a batch has received, as far as the table looks. */
const batchOf = (...words: number[]) => ({ words: Int32Array.from(words) })

t.test('clients with one hash are told apart, and leave in any order', async t => {
  for (const order of [
    [0, 1, 2],
    [2, 1, 0],
    [1, 0, 2],
  ]) {
    const table = new FlowTable<Flow>(() => 0.5)
    const flows = [flow(7, 2, 1), flow(7, 2, 2), flow(7, 2, 3)]
    for (const one of flows) table.add(one)
    const left = new Set(flows)
    for (const which of order) {
      const gone = flows[which]
      if (gone === undefined) throw new Error('no such flow')
      t.ok(table.delete(gone))
      t.notOk(table.delete(gone), 'once')
      left.delete(gone)
      for (const one of flows) {
        const found = table.find(batchOf(...one.name), 7, 0, -1)
        t.equal(found, left.has(one) ? one : undefined)
      }
      t.equal(table.size, left.size)
      t.strictSame(new Set(table.all()), left)
    }
  }
})

t.test('a client of IPv4 has its address and port for a key', async t => {
  const table = new FlowTable<Flow>(() => 0.5)
  // AF_INET and port 0x1234, then 255.0.0.1 with its first byte lowest.
  const batch = batchOf(0x1234_0002, 0x0100_00ff | 0, 0, 0)
  t.equal(table.hash(batch, 0, -1), 0x0100_00ff * 65_536 + 0x1234)
  const high = batchOf(0x1234_0002, 0xff00_0001 | 0, 0, 0)
  t.equal(table.hash(high, 0, -1), 0xff00_0001 * 65_536 + 0x1234)
})

t.test('the address written to is a part of who a client is', async t => {
  const table = new FlowTable<Flow>(() => 0.5)
  const one: Flow = { ...flow(7, 2, 1), destination: Int32Array.of(9) }
  table.add(one)
  t.equal(table.find(batchOf(2, 1, 9), 7, 0, 2), one)
  t.equal(table.find(batchOf(2, 1, 8), 7, 0, 2), undefined)
  t.equal(table.find(batchOf(2, 1), 7, 0, -1), undefined)
})

t.test('nobody outside can tell which clients of IPv6 share a key', async t => {
  const client = batchOf(0x1234_000a, 0, 1, 2, 3, 4, 0)
  const [one, two] = [0.1, 0.7].map(random => {
    return new FlowTable<Flow>(() => random).hash(client, 0, -1)
  })
  t.not(one, two)
  t.ok(Number.isSafeInteger(one) && (one ?? -1) >= 0)
})
