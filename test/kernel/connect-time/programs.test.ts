import t from 'tap'
import { fileURLToPath } from 'node:url'
import { Bpf, type ProgramRefused } from '../../../src/kernel/bpf/bpf.ts'
import { programsFor } from '../../../src/kernel/connect-time/programs.ts'
import { tableDefinitions } from '../../../src/kernel/connect-time/tables.ts'
import { runTool } from '../../../src/kernel/run-tool.ts'
import { skip } from './group.ts'
import { loadVariants, sizes, variants } from './program-variants.ts'

t.test('the verifier takes every variant of every program', { skip }, async t => {
  t.equal(loadVariants(), 222)
})

/** Without CAP_PERFMON it wants more of a program. */
t.test('so it does with the privileges that Usher asks for', { skip }, async t => {
  const main = fileURLToPath(new URL('load-variants-main.ts', import.meta.url))
  const caps = '-all,+bpf,+net_admin'
  const said = await runTool('setpriv', [
    `--bounding-set=${caps}`,
    `--inh-caps=${caps}`,
    process.execPath,
    ...process.execArgv,
    main,
  ])
  t.equal(said, 'the verifier took 222 programs\n')
})

t.test(
  'programs look into tables that there are, and are the same each time',
  async t => {
    const names = new Set<string>(Object.keys(tableDefinitions(sizes)))
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
