/**
 * A chain, or a set that packets fill, of a table: what several Services may need, and what goes
 * with the last of them. A name stands for one content at a time.
 */
export type Part = ChainPart | SetPart

/** One that is there, and maybe not known any further. */
export type Named = Pick<Part, 'kind' | 'name'>

export interface ChainPart {
  readonly kind: 'chain'
  readonly name: string
  /** Of a base chain, as in `type nat hook output priority -100; policy accept;`. */
  readonly hook?: string
  /** Without `add rule`. */
  readonly rules: readonly string[]
  /**
   * Also while nothing needs it. When a rule goes that looks into a map which stays, a monitor
   * shows no more changes of that map.
   */
  readonly stays?: boolean
}

export interface SetPart {
  readonly kind: 'set'
  readonly name: string
  /** As in `type ipv4_addr; flags dynamic,timeout; timeout 10s;`. */
  readonly definition: string
}

/** Makes them, or makes them what they are now to be; elements of sets stay. */
export const partsTexts = (table: string, parts: readonly Part[]): readonly string[] => {
  // All that rules lead to or look into is there before the first rule.
  const made = parts.map(part => makeText(table, part))
  const rules = parts.flatMap(part =>
    part.kind === 'chain' ? rulesText(table, part) : [],
  )
  return [...made, ...rules]
}

const rulesText = (table: string, { name, rules }: ChainPart): string =>
  rules.map(rule => `add rule ${table} ${name} ${rule}\n`).join('')

const makeText = (table: string, part: Part): string => {
  const name = `${table} ${part.name}`
  if (part.kind === 'set') return `add set ${name} { ${part.definition} }\n`
  const hook = part.hook === undefined ? '' : ` { ${part.hook} }`
  return `add chain ${name}${hook}\nflush chain ${name}\n`
}

/** Of chains, so that no rule goes when they do. */
export const emptiedText = (table: string, parts: readonly Named[]): string =>
  parts
    .filter(({ kind }) => kind === 'chain')
    .map(({ name }) => `flush chain ${table} ${name}\n`)
    .join('')

/** Nothing but each other may lead to them. */
export const removeText = (table: string, parts: readonly Named[]): string => {
  const chains = parts.filter(({ kind }) => kind === 'chain')
  const sets = parts.filter(({ kind }) => kind === 'set')
  const deleted = [...chains, ...sets].map(
    ({ kind, name }) => `delete ${kind} ${table} ${name}\n`,
  )
  return `${emptiedText(table, chains)}${deleted.join('')}`
}

/**
 * Kernels before 6.2 let go of a chain only some time after the last element that led
 * there; it is taken out with the first change after this many milliseconds.
 */
const idleMs = 5000

interface Shared {
  readonly kind: Part['kind']
  /** Undefined: one that was found, and is not known. */
  part: Part | undefined
  uses: number
  /** When the last use went. */
  idleSince: number
}

/** Which parts there are, by how many each is needed, and which have to be written. */
export class SharedParts {
  readonly #parts = new Map<string, Shared>()
  readonly #fresh = new Set<string>()

  enter(part: Part): void {
    const { kind, name } = part
    const known = this.#parts.get(name)
    if (known === undefined) {
      this.#parts.set(name, { kind, part, uses: 1, idleSince: 0 })
      this.#fresh.add(name)
      return
    }
    known.uses += 1
    if (known.part !== part && !isSame(known.part, part)) this.#fresh.add(name)
    known.part = part
  }

  leave({ name }: Part, now: number): void {
    const known = this.#parts.get(name)
    if (known === undefined) return
    known.uses -= 1
    if (known.uses === 0) known.idleSince = now
  }

  /** One that an earlier process has left; it goes unless it is entered. */
  found(kind: Part['kind'], name: string, now: number): void {
    if (!this.#parts.has(name))
      this.#parts.set(name, { kind, part: undefined, uses: 0, idleSince: now })
  }

  /** Those to be written; asked once. */
  takeFresh(): readonly Part[] {
    const fresh = [...this.#fresh].flatMap(name => {
      const { part, uses = 0 } = this.#parts.get(name) ?? {}
      return part === undefined || uses === 0 ? [] : [part]
    })
    this.#fresh.clear()
    return fresh
  }

  /** Those that were found and that nothing needs. */
  unneeded(): readonly Named[] {
    return [...this.#parts].flatMap(([name, { kind, part, uses }]) =>
      uses === 0 && part === undefined ? [{ kind, name }] : [],
    )
  }

  /** Those that nothing has led to for long enough; asked once. */
  takeIdle(now: number): readonly Named[] {
    const idle: Named[] = []
    for (const [name, { kind, part, uses, idleSince }] of this.#parts) {
      if (part?.kind === 'chain' && part.stays === true) continue
      if (uses === 0 && now - idleSince >= idleMs) idle.push({ kind, name })
    }
    for (const { name } of idle) this.#parts.delete(name)
    return idle
  }
}

/** Asked for each Service: most need the same few chains. */
const isSame = (a: Part | undefined, b: Part): boolean => {
  if (a?.kind === 'set') return b.kind === 'set' && a.definition === b.definition
  return (
    a !== undefined &&
    b.kind === 'chain' &&
    a.rules.length === b.rules.length &&
    a.rules.every((rule, at) => rule === b.rules[at])
  )
}
