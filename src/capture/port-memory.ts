import { join } from 'node:path'
import type { Clock, Timer } from '../util/clock.ts'
import {
  portFileText,
  type PortRecord,
  readPortFile,
  writePortFile,
} from './port-file.ts'
import type { HeldPort, PortKeeper } from './proxy-ports.ts'

export interface PortMemoryDeps {
  /** `--state-dir`; made when the first ports are written, if its parent is there. */
  readonly directory: string
  readonly clock: Clock
  /** Milliseconds since 1970; by default the system's. */
  readonly wallClock?: () => number
  /** Called with what can't be read or written, once until that changes; '' when it can again. */
  readonly failed: (problem: string) => void
}

export interface PortMemory extends PortKeeper {
  /** Writes what is not written yet, unless that takes longer than 2 s. */
  close(): Promise<void>
}

const fileName = 'proxy-ports'
const writeAfterMs = 1000
const firstRetryMs = 5000
const lastRetryMs = 60_000
/** How long the end of the process waits for a disk. */
const closeMs = 2000
const keptAwaySeconds = 7 * 24 * 3600

/**
 * Proxy ports that outlive the process, in a file of the state directory. Nothing waits
 * for the disk, and what can't be read or written costs but the memory.
 */
export const openPortMemory = async (deps: PortMemoryDeps): Promise<PortMemory> => {
  const path = join(deps.directory, fileName)
  try {
    const records = await readPortFile(path)
    const written = records.length === 0 ? '' : await portFileText(records)
    return new FileMemory(deps, { records, written, problem: '' })
  } catch (error) {
    const problem = `proxy ports of the last run are not known: ${(error as Error).message}`
    return new FileMemory(deps, { records: [], written: '', problem })
  }
}

interface Found {
  readonly records: readonly PortRecord[]
  /** What the file says, as it would be written. */
  readonly written: string
  readonly problem: string
}

class FileMemory implements PortMemory {
  readonly known: readonly HeldPort[]
  readonly #deps: PortMemoryDeps
  readonly #path: string
  /** When ids were found to be away, in seconds since 1970. */
  #awaySince: ReadonlyMap<string, number>
  #held: (() => readonly HeldPort[]) | undefined
  /** The file can't be used, but is not to be replaced: a later version's. */
  #keepOld: boolean
  #written: string
  #timer: Timer | undefined
  #writing: Promise<void> | undefined
  #failures = 0
  #problem = ''
  #closed = false

  constructor(deps: PortMemoryDeps, { records, written, problem }: Found) {
    this.#deps = deps
    this.#path = join(deps.directory, fileName)
    const now = this.#seconds()
    const kept = records.filter(({ awaySince }) => !isOld(awaySince, now))
    // What was there at the end has been away since; it is not known since when.
    this.#awaySince = new Map(kept.map(one => [one.id, one.awaySince || now]))
    this.known = kept.map(({ id, protocol, port }) => ({
      id,
      protocol,
      port,
      away: true,
    }))
    this.#written = written
    this.#keepOld = problem !== ''
    this.#say(problem)
  }

  /** Writes it 1 s later, together with what changes until then. */
  changed(held: () => readonly HeldPort[]): void {
    this.#held = held
    if (this.#timer === undefined && this.#writing === undefined)
      this.#writeIn(writeAfterMs)
  }

  async close(): Promise<void> {
    const { clock } = this.#deps
    this.#closed = true
    clock.clearTimeout(this.#timer)
    let timer: Timer | undefined
    const late = new Promise<void>(resolve => {
      timer = clock.setTimeout(resolve, closeMs)
    })
    const last = async (): Promise<void> => {
      await this.#writing
      if (this.#held !== undefined) await this.#write()
    }
    await Promise.race([last(), late])
    clock.clearTimeout(timer)
  }

  #writeIn(ms: number): void {
    if (this.#closed) return
    this.#timer = this.#deps.clock.setTimeout(() => {
      this.#timer = undefined
      this.#writing = this.#write().finally(() => {
        this.#writing = undefined
        if (this.#held !== undefined) this.#writeIn(this.#pause())
      })
    }, ms)
    this.#timer.unref?.()
  }

  #pause(): number {
    if (this.#failures === 0) return writeAfterMs
    return Math.min(lastRetryMs, firstRetryMs * 2 ** (this.#failures - 1))
  }

  async #write(): Promise<void> {
    const held = this.#held
    if (held === undefined) return
    this.#held = undefined
    try {
      const text = await portFileText(this.#records(held()))
      if (text !== this.#written) {
        const aside = this.#keepOld ? `${this.#path}.unusable` : undefined
        await writePortFile(this.#path, text, aside)
      }
      this.#written = text
      this.#keepOld = false
      this.#failures = 0
      this.#say('')
    } catch (error) {
      this.#held ??= held
      this.#failures += 1
      this.#say(`proxy ports can't be remembered: ${(error as Error).message}`)
    }
  }

  #records(held: readonly HeldPort[]): readonly PortRecord[] {
    const now = this.#seconds()
    const since = new Map<string, number>()
    const records = held.map(({ id, protocol, port, away }) => {
      const awaySince = away ? (this.#awaySince.get(id) ?? now) : 0
      if (away) since.set(id, awaySince)
      return { id, protocol, port, awaySince }
    })
    this.#awaySince = since
    return records.filter(({ awaySince }) => !isOld(awaySince, now))
  }

  #seconds(): number {
    return Math.floor((this.#deps.wallClock ?? Date.now)() / 1000)
  }

  #say(problem: string): void {
    if (problem === this.#problem) return
    this.#problem = problem
    this.#deps.failed(problem)
  }
}

const isOld = (awaySince: number, now: number): boolean =>
  awaySince !== 0 && now - awaySince > keptAwaySeconds
