import { closeSync, constants, openSync } from 'node:fs'
import type { Bpf } from '../bpf/bpf.ts'
import type { Features } from './forward.ts'
import { programsFor } from './programs.ts'
import { tableDefinitions, type TableName, type TableSizes } from './tables.ts'
import { TableWriter } from './table-writer.ts'

export interface SteeringDeps {
  readonly bpf: Bpf
  /** A folder of cgroup v2: its processes, and those of all groups below, are led. */
  readonly cgroup: string
  readonly features: Features
  readonly sizes: TableSizes
}

/** Programs at a cgroup's hooks, with their tables; they end when this is closed. */
export interface Steering {
  readonly writer: TableWriter
  readonly close: () => void
}

/** Throws where the kernel refuses; nothing is left then. */
export const steer = ({ bpf, cgroup, features, sizes }: SteeringDeps): Steering => {
  const open: number[] = []
  const keep = (descriptor: number): number => {
    open.push(descriptor)
    return descriptor
  }
  const close = (): void => {
    for (const descriptor of open.splice(0)) bpf.close(descriptor)
  }
  try {
    const definitions = tableDefinitions(sizes)
    const tables = Object.fromEntries(
      Object.entries(definitions).map(([name, each]) => [
        name,
        keep(bpf.createMap(each)),
      ]),
    ) as Record<TableName, number>
    const folder = openSync(cgroup, constants.O_RDONLY | constants.O_DIRECTORY)
    try {
      for (const each of programsFor(features)) {
        const program = keep(bpf.loadProgram(each, name => tables[name as TableName]))
        keep(bpf.createLink(program, folder, each.attachType))
      }
    } finally {
      closeSync(folder)
    }
    return { writer: new TableWriter(bpf, definitions, tables), close }
  } catch (error) {
    close()
    throw error
  }
}
