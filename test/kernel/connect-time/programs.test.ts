import t from 'tap'
import { Bpf, type ProgramRefused } from '../../../src/kernel/bpf/bpf.ts'
import type { Features } from '../../../src/kernel/connect-time/forward.ts'
import { programsFor } from '../../../src/kernel/connect-time/programs.ts'
import {
  tableDefinitions,
  type TableName,
} from '../../../src/kernel/connect-time/tables.ts'
import { skip } from './group.ts'

const sizes = { services: 10, slots: 10, members: 10, sockets: 100 }

const variants: readonly Features[] = [true, false].flatMap(errors =>
  [true, false].flatMap(avoidsFailed =>
    [undefined, 1n, 0x8000_0000_8000_0001n].flatMap(node =>
      [true, false].map(onlyNode => ({ errors, avoidsFailed, node, onlyNode })),
    ),
  ),
)

t.test('the verifier takes every variant of every program', { skip }, async t => {
  const bpf = new Bpf()
  const tables = new Map(
    Object.entries(tableDefinitions(sizes)).map(([name, each]) => [
      name,
      bpf.createMap(each),
    ]),
  )
  t.teardown(() => {
    for (const descriptor of tables.values()) bpf.close(descriptor)
  })
  for (const features of variants)
    for (const each of programsFor(features)) {
      const descriptor = bpf.loadProgram(each, name => tables.get(name) ?? -1)
      t.ok(descriptor > 0, `${each.name} ${each.program.length}`)
      bpf.close(descriptor)
    }
})

t.test(
  'programs look into tables that there are, and are the same each time',
  async t => {
    const names = new Set<string>(Object.keys(tableDefinitions(sizes)) as TableName[])
    for (const features of variants)
      for (const { name, program } of programsFor(features)) {
        t.ok(name.length <= 15, name)
        for (const { map } of program) if (map !== undefined) t.ok(names.has(map), map)
      }
    const [features] = variants
    if (features !== undefined) t.same(programsFor(features), programsFor(features))
  },
)

t.test('a program that the verifier refuses says where and why', { skip }, async t => {
  const bpf = new Bpf()
  const read = { code: 0x61, to: 0, from: 2, offset: 0, value: 0 }
  const exit = { code: 0x95, to: 0, from: 0, offset: 0, value: 0 }
  const bad = { name: 'bad', type: 18, attachType: 10, program: [read, exit] }
  t.throws(() => bpf.loadProgram(bad, () => -1), {
    code: 'EACCES',
    message:
      /^the kernel refused program bad \(EACCES\): R2 .* at 0: r0 = \*\(u32 \*\)\(r2 \+0\)$/,
    log: /R2 /,
  } satisfies Partial<Record<keyof ProgramRefused, unknown>>)
})
