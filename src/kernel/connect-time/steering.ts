import { shortHash } from '../../util/short-hash.ts'
import { closeSync, constants, openSync, statSync } from 'node:fs'
import type { Bpf } from '../bpf/bpf.ts'
import type { Pins } from '../bpf/pins.ts'
import { type Features, programsFor } from './programs.ts'
import { format, tableDefinitions, type TableName, type TableSizes } from './tables.ts'
import { TableWriter } from './table-writer.ts'

export interface SteeringDeps {
  readonly bpf: Bpf
  /** A folder of cgroup v2: its processes, and those of all groups below, are led. */
  readonly cgroup: string
  readonly features: Features
  readonly sizes: TableSizes
  /** Keeps tables and programs for the next process. */
  readonly pins: Pins
}

/**
 * Programs at a cgroup's hooks, with their tables. Those that an earlier process has left are taken
 * over: who is led by them notices nothing.
 */
export class Steering {
  readonly writer: TableWriter
  readonly #deps: SteeringDeps
  readonly #layout: string
  readonly #definitions: ReturnType<typeof tableDefinitions>
  readonly #tables: Readonly<Record<TableName, number>>
  readonly #open: number[] = []
  readonly #links = new Map<string, number>()
  #isClosed = false

  /** Opens the tables, or makes them; nobody new is led yet. Throws where the kernel refuses. */
  constructor(deps: SteeringDeps) {
    const { bpf, pins, sizes } = deps
    this.#deps = deps
    const definitions = (this.#definitions = tableDefinitions(sizes))
    this.#layout = layoutOf(definitions, deps.cgroup)
    try {
      this.#tables = Object.fromEntries(
        Object.entries(definitions).map(([name, definition]) => {
          const make = () => bpf.createMap(definition)
          return [name, this.#keep(pins.open(this.#layout, `table-${name}`, make))]
        }),
      ) as Record<TableName, number>
      this.writer = new TableWriter(bpf, definitions, this.#tables)
    } catch (error) {
      this.close()
      throw error
    }
  }

  /**
   * Puts its programs at the hooks, each in the place of the one before in one step. What another
   * version has left with tables of another shape goes last, so that there is always one that leads.
   */
  attach(): void {
    const { bpf, cgroup, features, pins } = this.#deps
    const folder = openSync(cgroup, constants.O_RDONLY | constants.O_DIRECTORY)
    try {
      for (const each of programsFor(features)) {
        const program = bpf.loadProgram(each, name => this.#tables[name as TableName])
        try {
          const attach = () => bpf.createLink(program, folder, each.attachType)
          // Its file is there still where another program has taken it from the hook.
          const update = (link: number): boolean => {
            const isAttached = bpf.isAttached(link)
            if (isAttached) bpf.updateLink(link, program)
            return isAttached
          }
          const name = `link-${each.name}`
          const link = this.#keep(pins.open(this.#layout, name, attach, update))
          this.#links.set(name, link)
        } finally {
          // The link holds it.
          bpf.close(program)
        }
      }
    } finally {
      closeSync(folder)
    }
    pins.removeOthers(this.#layout)
  }

  /** What others have done to it; '' for nothing. Throws where the kernel does not say. */
  damage(): string {
    const { bpf, cgroup, pins } = this.#deps
    for (const [name, link] of this.#links) {
      if (!bpf.isAttached(link)) return `${name} no longer belongs to ${cgroup}`
      if (!pins.has(this.#layout, name)) return `${name} was removed from the bpffs`
    }
    const lost = Object.keys(this.#tables).find(
      name => !pins.has(this.#layout, `table-${name}`),
    )
    return lost === undefined ? '' : `table-${lost} was removed from the bpffs`
  }

  /** Where a table is in the bpffs. */
  pathOf(name: TableName): string {
    return this.#deps.pins.path(this.#layout, `table-${name}`)
  }

  /**
   * What a table has now, bytes as latin1. Ends early when this is closed meanwhile: its descriptor may
   * be another table's by then, with larger elements than there is room for.
   */
  *entries(name: TableName): Iterable<readonly [key: string, value: string]> {
    const { bpf } = this.#deps
    const all = bpf.entries(this.#tables[name], this.#definitions[name])
    const iterator = all[Symbol.iterator]()
    while (!this.#isClosed) {
      const next = iterator.next()
      if (next.done === true) return
      yield next.value
    }
  }

  /** What is pinned goes on without this process. */
  close(): void {
    this.#isClosed = true
    this.#links.clear()
    for (const descriptor of this.#open.splice(0)) this.#deps.bpf.close(descriptor)
  }

  #keep(descriptor: number): number {
    this.#open.push(descriptor)
    return descriptor
  }
}

/** Tables of one shape and meaning, at one cgroup: the kernel never gives its number to another. */
const layoutOf = (
  definitions: ReturnType<typeof tableDefinitions>,
  cgroup: string,
): string => {
  const { ino } = statSync(cgroup, { bigint: true })
  return shortHash(JSON.stringify([format, definitions, String(ino)]))
}
