import { mkdir, readlink, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Turns } from '../util/turns.ts'
import { readIfThere } from '../util/read-text.ts'

/** What of a sysctl (or parameter of a module) has to be put back at the end. */
export interface RememberedSysctl {
  /** Below /proc/sys with slashes, as in `net/ipv4/ip_forward`; or a whole path. */
  readonly name: string
  /** As it was found. */
  readonly before: string
  /** As Usher has set it. */
  readonly set: string
}

export interface SysctlDeps {
  /** /proc/sys. */
  readonly root?: string
  /** Where the memory is kept; its name is of this network namespace's. */
  readonly memory?: () => Promise<string>
}

export interface SetOptions {
  /** It is not set where it could not be put back by others; by default it is. */
  readonly mustBeRemembered?: boolean
}

/** What was found can't be written down, and so the setting stays as it is. */
export class UnrememberedError extends Error {
  override readonly name = 'UnrememberedError'
}

/** Settings of the kernel's, each remembered as it was found. Calls may overlap. */
export interface Sysctls {
  /**
   * Resolves when it is so already. Rejects when it can't be set, with the reason, or with
   * UnrememberedError.
   */
  set(name: string, value: string, options?: SetOptions): Promise<void>
  /** Undefined where the kernel has no such thing. */
  read(name: string): Promise<string | undefined>
  /** Those that are still as Usher has set them. */
  remembered(): Promise<readonly RememberedSysctl[]>
  /** Writes what was found, and forgets it. Rejects when it can't be written. */
  putBack(sysctl: RememberedSysctl): Promise<void>
}

/** Usher sets some twenty; a file with more is not Usher's. */
const mostRemembered = 64
const mostBytes = 64 * 1024

/** Settings go with a restart of the host, as what is in /run does, mostly. */
const defaultDirectory = '/run/usher'

/** Of each start of the kernel another: settings of an earlier one are gone. */
const bootId = 'kernel/random/boot_id'

/**
 * Settings below /proc/sys/net are those of a network namespace, so each has a memory. Its
 * number may come again when it has ended, but with settings that are the kernel's: what is
 * not as Usher has set it is not put back.
 */
const defaultMemory = async (): Promise<string> => {
  const namespace = await readlink('/proc/self/ns/net').catch(() => '')
  const id = /\d+/.exec(namespace)?.[0] ?? 'host'
  return join(defaultDirectory, `sysctls-${id}.json`)
}

export const hostSysctls = (deps: SysctlDeps = {}): Sysctls => {
  const { root = '/proc/sys', memory = defaultMemory } = deps
  const pathOf = (name: string): string =>
    name.startsWith('/') ? name : join(root, name)
  const read = async (name: string): Promise<string | undefined> => {
    const text = await readIfThere(pathOf(name))
    return text === undefined ? undefined : plain(text)
  }
  // Two families may set theirs at once, and each writes the memory as a whole.
  const turns = new Turns()
  /** What this process has set, by name: the memory may be unwritable, or be deleted. */
  const own = new Map<string, RememberedSysctl>()
  const recall = async (): Promise<readonly RememberedSysctl[]> => {
    const { boot, sysctls } = parseMemory(await readIfThere(await memory()))
    const written = boot === (await read(bootId)) ? sysctls : []
    const names = new Set(written.map(({ name }) => name))
    return [...written, ...[...own.values()].filter(({ name }) => !names.has(name))]
  }
  const write = async (all: readonly RememberedSysctl[]): Promise<void> => {
    const path = await memory()
    if (all.length === 0) return rm(path, { force: true })
    await mkdir(dirname(path), { recursive: true })
    // Whole or not at all, whenever the host stops.
    const text = JSON.stringify({ boot: await read(bootId), sysctls: all })
    await writeFile(`${path}.new`, `${text}\n`)
    await rename(`${path}.new`, path)
  }
  const set = async (
    name: string,
    value: string,
    { mustBeRemembered = false }: SetOptions = {},
  ): Promise<void> => {
    const before = await read(name)
    if (before === undefined) throw new Error(`this kernel has no ${name}`)
    if (before === value) return
    const known = await recall()
    const mine = known.find(one => one.name === name && one.set === before)
    const others = known.filter(one => one.name !== name)
    const entry = { name, before: mine?.before ?? before, set: value }
    // First, so that it is known whatever happens next. Where nothing can be remembered
    // it is set all the same, unless that is dangerous: the rules need it more.
    const path = await memory()
    await write([...others, entry].slice(-mostRemembered)).catch((error: unknown) => {
      if (mustBeRemembered) throw new UnrememberedError(unremembered(name, path, error))
    })
    try {
      await writeFile(pathOf(name), value)
      own.set(name, entry)
    } catch (error) {
      await write(known).catch(() => {})
      throw error
    }
  }
  return {
    read,
    set: (name, value, options) => turns.take(() => set(name, value, options)),
    remembered: async () => {
      const still: RememberedSysctl[] = []
      for (const one of await recall())
        if ((await read(one.name)) === one.set) still.push(one)
      return still
    },
    putBack: ({ name, before }) =>
      turns.take(async () => {
        await writeFile(pathOf(name), before)
        own.delete(name)
        const others = (await recall()).filter(one => one.name !== name)
        // Nothing is lost where nothing was written: it is as it was found.
        await write(others).catch(() => {})
      }),
  }
}

const unremembered = (name: string, path: string, error: unknown): string =>
  `${name} is not set: it opens the node, and how it was found can't be kept in ${path} ` +
  `(${(error as Error).message}), so that it could not be taken back; make ${dirname(path)} writable`

/** Some have several numbers, with tabs between them. */
const plain = (text: string): string => text.trim().replaceAll(/\s+/g, ' ')

interface Memory {
  /** The start of the kernel in which it was written. */
  readonly boot: unknown
  readonly sysctls: readonly RememberedSysctl[]
}

const noMemory: Memory = { boot: undefined, sysctls: [] }

/** Lines that are not as Usher writes them are passed over. */
const parseMemory = (text = ''): Memory => {
  if (text.length > mostBytes) return noMemory
  let memory: unknown
  try {
    memory = JSON.parse(text)
  } catch {
    return noMemory
  }
  if (typeof memory !== 'object' || memory === null) return noMemory
  const all: unknown = Reflect.get(memory, 'sysctls')
  if (!Array.isArray(all)) return noMemory
  const sysctls = all.filter(isRemembered).filter(isOurs).slice(0, mostRemembered)
  return { boot: Reflect.get(memory, 'boot'), sysctls }
}

const isRemembered = (value: unknown): value is RememberedSysctl =>
  typeof value === 'object' &&
  value !== null &&
  ['name', 'before', 'set'].every(field => typeof Reflect.get(value, field) === 'string')

/** The file says what is written where, as root: only these places are. */
const isOurs = ({ name }: RememberedSysctl): boolean =>
  /^(?:net\/[\w./-]+|\/sys\/module\/nf_conntrack\/parameters\/hashsize)$/.test(name) &&
  !name.includes('..')
