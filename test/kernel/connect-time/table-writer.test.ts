import t from 'tap'
import { loadBpfCall } from '../../../src/ffi/bpf-call.ts'
import { Bpf } from '../../../src/kernel/bpf/bpf.ts'
import {
  tableDefinitions,
  type TableName,
} from '../../../src/kernel/connect-time/tables.ts'
import { TableWriter } from '../../../src/kernel/connect-time/table-writer.ts'
import { ElementChanges } from '../../../src/kernel/elements/element-changes.ts'
import { skip } from './group.ts'

/** Of enum bpf_cmd. */
const updateBatch = 26

const makeTables = (services: number) => {
  const real = loadBpfCall()
  let updates = 0
  const bpf = new Bpf({
    allocate: bytes => real.allocate(bytes),
    call: (command, ...rest) => {
      if (command === updateBatch) updates += 1
      return real.call(command, ...rest)
    },
  })
  const definitions = tableDefinitions({
    services,
    slots: 20_000,
    members: 20_000,
    sockets: 10,
  })
  const descriptors = Object.fromEntries(
    Object.entries(definitions).map(([name, each]) => [name, bpf.createMap(each)]),
  ) as Record<TableName, number>
  t.teardown(() => {
    for (const each of Object.values(descriptors)) bpf.close(each)
  })
  const keysOf = (name: TableName): readonly string[] =>
    Array.from(
      bpf.entries(descriptors[name], definitions[name]),
      ([key]) => key,
    ).toSorted()
  return {
    keysOf,
    updates: () => updates,
    writer: () => new TableWriter(bpf, definitions, descriptors),
  }
}

const slot = (n: number) => ({
  set: 'slots',
  key: String(n).padStart(16),
  value: String(n).padStart(24),
})
const serviceAt = (n: number) => ({
  set: 'services',
  key: String(n).padStart(24),
  value: String(n).padStart(32),
})

t.test('what comes is there, and what goes is not', { skip }, async t => {
  const { keysOf, writer } = makeTables(100)
  const one = writer()
  const changes = new ElementChanges()
  for (let n = 0; n < 10_000; n += 1) changes.come(slot(n))
  await one.write(changes)
  t.equal(keysOf('slots').length, 10_000, 'of several lots')
  const next = new ElementChanges()
  for (let n = 0; n < 9999; n += 1) next.gone(slot(n))
  next.gone(slot(9999))
  next.come(slot(9999))
  await one.write(next)
  t.same(keysOf('slots'), [slot(9999).key])
})

t.test('what a process before has left goes, if it is not wanted', { skip }, async t => {
  const { keysOf, writer } = makeTables(100)
  const before = new ElementChanges()
  for (let n = 0; n < 1000; n += 1) before.come(slot(n))
  for (let n = 0; n < 90; n += 1) before.come(serviceAt(n))
  await writer().write(before)
  const wanted = new ElementChanges()
  wanted.come(slot(7))
  wanted.come(slot(1001))
  wanted.come(serviceAt(8))
  await writer().writeAll(wanted)
  t.same(keysOf('slots'), [slot(7).key, slot(1001).key].toSorted())
  t.same(keysOf('services'), [serviceAt(8).key])
})

t.test('what a process before has left is not written again', { skip }, async t => {
  const { keysOf, updates, writer } = makeTables(100)
  const wanted = (count: number): ElementChanges => {
    const changes = new ElementChanges()
    for (let n = 0; n < count; n += 1) changes.come(serviceAt(n))
    return changes
  }
  await writer().writeAll(wanted(20))
  t.equal(updates(), 1)
  await writer().writeAll(wanted(20))
  t.equal(updates(), 1, 'programs may be reading it')
  await writer().writeAll(wanted(21))
  t.equal(updates(), 2)
  t.equal(keysOf('services').length, 21)
})

t.test('a table that is full is a failure', { skip }, async t => {
  const { writer } = makeTables(10)
  const changes = new ElementChanges()
  for (let n = 0; n < 11; n += 1) changes.come(serviceAt(n))
  await t.rejects(writer().write(changes), { code: 'E2BIG' })
})
