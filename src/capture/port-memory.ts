import { join, dirname } from 'node:path'
import { constants } from 'node:fs'
import { mkdir, open, rename, unlink } from 'node:fs/promises'
import { type Clock, type Timer, within } from '../util/clock.ts'
import type { HeldPort, PortKeeper } from './proxy-ports.ts'
import type { Protocol } from '../model/service.ts'
import { forEachYielding } from '../util/list-diff.ts'

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
    const problem = `cannot load the proxy ports of the last run: ${(error as Error).message}`
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
    this.#report(problem)
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
    const last = async (): Promise<void> => {
      await this.#writing
      if (this.#held !== undefined) await this.#write()
    }
    await within(clock, closeMs, last())
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
      this.#report('')
    } catch (error) {
      this.#held ??= held
      this.#failures += 1
      this.#report(`can't save proxy ports: ${(error as Error).message}`)
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

  #report(problem: string): void {
    if (problem === this.#problem) return
    this.#problem = problem
    this.#deps.failed(problem)
  }
}

const isOld = (awaySince: number, now: number): boolean =>
  awaySince !== 0 && now - awaySince > keptAwaySeconds

/** One line of the file. */
interface PortRecord {
  readonly id: string
  readonly protocol: Protocol
  readonly port: number
  /** Seconds since 1970 at which its ServicePort was found to be away; 0: it was there. */
  readonly awaySince: number
}

/** Written and read; those away for longest are the first to be left out. */
const mostRecords = 100_000
/** An id has some 60 characters, and 400 at most. */
const mostBytes = 48 * 1024 * 1024
const magic = 'usher-proxy-ports'
const version = 1

/**
 * Reads what `writePortFile` wrote; nothing where there is no file. Rejects with an Error
 * that says what is wrong with it, whatever is found there.
 */
const readPortFile = async (path: string): Promise<readonly PortRecord[]> => {
  const text = await readText(path)
  if (text === undefined) return []
  const [header = '', ...lines] = text.split('\n')
  const [name, number] = header.split(' ')
  if (name !== magic) throw new Error(`${path} is not a file of proxy ports`)
  if (number !== String(version))
    throw new Error(
      `${path} has version ${number}, and this Usher reads only version ${version}`,
    )
  if (lines.pop() !== '') throw new Error(`${path} ends in the middle of a line`)
  if (lines.length > mostRecords)
    throw new Error(`${path} has more than ${mostRecords} lines`)
  const records: PortRecord[] = []
  await forEachYielding(lines, line => {
    const record = parse(line)
    if (record === undefined)
      throw new Error(`${path}: line ${records.length + 2} is not a proxy port`)
    records.push(record)
  })
  return records
}

/** The whole file as text, made without holding the event loop. */
const portFileText = async (records: readonly PortRecord[]): Promise<string> => {
  const pieces = [`${magic} ${version}\n`]
  await forEachYielding(records.slice(-mostRecords), record => {
    if (!isPlain(record.id)) return
    const { protocol, port, awaySince, id } = record
    pieces.push(`${protocol} ${port} ${awaySince} ${id}\n`)
  })
  return pieces.join('')
}

/**
 * All or nothing, whatever happens in between (rename(2)). Only root and its like may
 * read it. An existing file goes to `putAside` first if that is given. The directory is
 * made if its parent is there.
 */
const writePortFile = async (
  path: string,
  text: string,
  putAside?: string,
): Promise<void> => {
  const directory = dirname(path)
  // Not recursive: Node's never ends where the kernel makes no directories, as in /proc.
  await unless('EEXIST', mkdir(directory, { mode: 0o700 }))
  const temporary = `${path}.tmp`
  try {
    const file = await open(temporary, writing, 0o600)
    try {
      await file.writeFile(text)
      await file.sync()
    } finally {
      await file.close()
    }
    if (putAside !== undefined) await unless('ENOENT', rename(path, putAside))
    await rename(temporary, path)
  } catch (error) {
    await unlink(temporary).catch(() => {}) // It may not even be there.
    throw error
  }
  await syncDirectory(directory)
}

/** As 'w', but not waiting, should it be a FIFO: the end of the process would, too. */
const { O_WRONLY, O_CREAT, O_TRUNC, O_NONBLOCK } = constants
const writing = O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK

/** Until then the new name may not outlive a crash of the host; the old one would. */
const syncDirectory = async (path: string): Promise<void> => {
  const directory = await open(path, 'r')
  try {
    // Some file systems can't (fsync(2)), and what is written is written.
    await unless('EINVAL', directory.sync())
  } finally {
    await directory.close()
  }
}

/** An error of that name is as good as success. */
const unless = async (code: string, done: Promise<unknown>): Promise<void> => {
  try {
    await done
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== code) throw error
  }
}

const readText = async (path: string): Promise<string | undefined> => {
  let file
  try {
    // Not waiting, should it be a FIFO.
    file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
  try {
    const stat = await file.stat()
    if (!stat.isFile()) throw new Error(`${path} is not a regular file`)
    if (stat.size > mostBytes)
      throw new Error(`${path} has ${stat.size} bytes, more than ${mostBytes}`)
    return await file.readFile('utf8')
  } finally {
    await file.close()
  }
}

/** `TCP 40001 0 IPv4 default/web:http/TCP`. */
const parse = (line: string): PortRecord | undefined => {
  const match = /^(TCP|UDP) ([1-9]\d{0,4}) (0|[1-9]\d{0,11}) (.{1,1000})$/.exec(line)
  if (match === null) return undefined
  const [, protocol, port, awaySince, id = ''] = match
  if (Number(port) > 65_535) return undefined
  return {
    id,
    protocol: protocol === 'UDP' ? 'UDP' : 'TCP',
    port: Number(port),
    awaySince: Number(awaySince),
  }
}

/** Whether it can be read again. */
const isPlain = (id: string): boolean => /^.{1,1000}$/.test(id)
