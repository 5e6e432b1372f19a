import { Bpf } from '../../../src/kernel/bpf/bpf.ts'
import { type Features, programsFor } from '../../../src/kernel/connect-time/programs.ts'
import { tableDefinitions } from '../../../src/kernel/connect-time/tables.ts'

export const sizes = { services: 10, slots: 10, members: 10, sockets: 100 }

const base: readonly Features[] = [true, false].flatMap(errors =>
  [true, false].flatMap(avoidsFailed =>
    [undefined, 1n, 0x8000_0000_8000_0001n].flatMap(node =>
      [true, false].map(onlyNode => ({ errors, avoidsFailed, node, onlyNode })),
    ),
  ),
)

/** What programs are made for, in every combination; what stands by itself once. */
export const variants: readonly Features[] = [
  ...base,
  ...base.slice(0, 1).flatMap(one => [
    { ...one, exemptsGroups: true },
    { ...one, learns: true },
  ]),
]

/** Has the kernel's verifier look at every variant of every program; throws with its words. Gives how many. */
export const loadVariants = (): number => {
  const bpf = new Bpf()
  const tables = new Map<string, number>()
  let loaded = 0
  try {
    for (const [name, each] of Object.entries(tableDefinitions(sizes)))
      tables.set(name, bpf.createMap(each))
    for (const features of variants)
      for (const each of programsFor(features)) {
        bpf.close(bpf.loadProgram(each, name => tables.get(name) ?? -1))
        loaded += 1
      }
  } finally {
    for (const descriptor of tables.values()) bpf.close(descriptor)
  }
  return loaded
}
