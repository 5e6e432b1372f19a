import { ToolError } from '../../kernel/run-tool.ts'
import type { Clock, Timer } from '../../util/clock.ts'
import { type Backend, savedBy } from './backend.ts'
import type { Ledger } from './ledger.ts'
import { jumps, named, own, tableNames, type TableName } from './names.ts'
import { jumpDamage, readSaved } from './saved.ts'
import type { Saved } from './restore-text.ts'

/** What should be in the kernel, as long as nothing is under way. */
export interface Expected {
  readonly backend: Backend
  readonly ledger: Ledger
}

export interface CanaryDeps {
  readonly clock: Clock
  /** Undefined while Usher itself changes rules, or has none there. */
  readonly expected: () => Expected | undefined
  /** Grows with each change of Usher's own. */
  readonly epoch: () => number
  readonly damaged: (what: string) => void
}

/** Milliseconds between looks at jumps and first chains; reading them takes 5. */
const everyMs = 4000
/** After a look that a change of Usher's own came in the way of. */
const againMs = 250
/** Of the time, how much may go into reading all chains: 2 %. */
const pauseFactor = 50

/**
 * Looks every 4 s whether Usher's jumps and first chains are there, and, as often as that
 * costs no more than 2 % of the time, whether all chains have as many rules as they should.
 */
export class Canary {
  readonly #deps: CanaryDeps
  #timer: Timer | undefined
  #isStopped = false
  #nextFull = 0

  constructor(deps: CanaryDeps) {
    this.#deps = deps
    this.#wait(everyMs)
  }

  stop(): void {
    this.#isStopped = true
    this.#deps.clock.clearTimeout(this.#timer)
  }

  #wait(ms: number): void {
    if (this.#isStopped) return
    const { clock } = this.#deps
    this.#timer = clock.setTimeout(() => void this.#look(), ms)
    this.#timer.unref?.()
  }

  async #look(): Promise<void> {
    const { clock, expected, epoch, damaged } = this.#deps
    const [now, at] = [expected(), epoch()]
    if (now === undefined) return this.#wait(againMs)
    const started = clock.now()
    const isFull = started >= this.#nextFull
    const what = await lookAt(now, isFull)
    const took = clock.now() - started
    if (isFull) this.#nextFull = started + Math.max(everyMs, took * pauseFactor)
    if (this.#isStopped) return undefined
    if (epoch() !== at || expected() === undefined) {
      if (isFull) this.#nextFull = 0
      return this.#wait(againMs)
    }
    if (what !== '') damaged(what)
    this.#wait(Math.max(againMs, everyMs - took))
    return undefined
  }
}

/** What is wrong; '' for nothing, and when nothing could be read. */
const lookAt = async ({ backend, ledger }: Expected, full: boolean): Promise<string> => {
  try {
    return await damageIn(await read(backend, full), ledger, full)
  } catch (error) {
    if (error instanceof ToolError) return full ? '' : lookAt({ backend, ledger }, true)
    throw error
  }
}

const read = async (backend: Backend, full: boolean): Promise<Saved> => {
  if (full) return savedBy(backend)
  // One process, and no chain that is long. A chain that is missing ends it.
  const text = tableNames.map(table => {
    const chains = new Set(jumps.filter(jump => jump.table === table).map(j => j.chain))
    const shows = [...chains, ...firstChains[table]].map(chain => `-S ${chain}`)
    return backend.restore(`*${table}\n${shows.join('\n')}\nCOMMIT\n`)
  })
  const [filter = '', nat = ''] = await Promise.all(text)
  return { filter: await readSaved(filter), nat: await readSaved(nat) }
}

const damageIn = async (saved: Saved, ledger: Ledger, full: boolean): Promise<string> => {
  for (const table of tableNames) {
    const { chains, jumps: found } = saved[table]
    const wrong = jumpDamage(table, found)
    if (wrong !== '') return `${wrong} (table ${table})`
    for (const chain of full ? ledger.chains(table) : firstChains[table]) {
      const [there, wanted] = [chains.get(chain), ledger.size(table, chain)]
      if (there === undefined) return `chain ${chain} of table ${table} is gone`
      if (there !== wanted)
        return `chain ${chain} of table ${table} has ${there} rules instead of ${wanted}`
    }
  }
  return ''
}

/** Those that packets come to first; the parts of long ones are behind them. */
const firstChains: Readonly<Record<TableName, readonly string[]>> = {
  filter: [
    named.nonLocal,
    own.input,
    own.begin,
    own.nodeOnly,
    own.notNode,
    own.output,
    own.silence,
    own.refused,
    own.refusedNodePorts,
    own.reject,
  ],
  nat: [
    named.portalsContainer,
    named.portalsHost,
    named.nodePortContainer,
    named.nodePortHost,
    own.portals,
    own.nodePorts,
  ],
}
