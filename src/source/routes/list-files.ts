import { isDeepStrictEqual } from 'node:util'
import type { ClientLists } from '../../model/traffic.ts'
import {
  addressRanges,
  type AddressRanges,
  readBlock,
} from '../../util/address-ranges.ts'
import { type Clock, systemClock } from '../../util/clock.ts'
import { firstFew, printable, show } from '../../util/printable.ts'
import { Poller, signOf, steady, unmarked } from '../../util/watched-file.ts'
import type { Route } from './route.ts'
import { isAbsolute } from 'node:path'
import type { Cidr } from '../../util/cidr.ts'
import { decodeUtf8, fileFault, readRegular } from '../../util/read-text.ts'
import { pacer } from '../../util/list-diff.ts'

const prefix = 'file:'

/** Bytes: about a million addresses. */
const mostBytes = 16 * 1024 * 1024

/** More are only counted. */
const mostFaults = 20

const blockForm = 'an address or a CIDR, like 10.0.0.0/8 or fd00::1'

export const entryForm = `${blockForm}, or file: and an absolute path, like file:/etc/usher/blocked.txt`

/** An entry of a list of clients: its block, the path of a file of blocks, or what is wrong. */
export const readEntry = (
  given: string,
): { readonly block: Cidr } | { readonly path: string } | string => {
  if (given.startsWith(prefix)) {
    const path = given.slice(prefix.length)
    return isAbsolute(path) && path.length > 1 && !path.includes('\0')
      ? { path }
      : `${show(given)} is not ${entryForm}`
  }
  const block = readBlock(given)
  return block === undefined ? `${show(given)} is not ${entryForm}` : { block }
}

/** What there is in a file of blocks. */
export interface ListFile {
  readonly ranges: AddressRanges
  /** `line 3: ...`, none when it can be used. */
  readonly faults: readonly string[]
  /** The system could not read it, which another time it may, though the file does not change. */
  readonly isUnread?: boolean
}

const nothing = addressRanges([])

const unusable = (reason: string): ListFile => ({ ranges: nothing, faults: [reason] })

/** Reads one block a line; `#` begins a comment. Lets the event loop turn meanwhile. Never rejects. */
export const readListFile = async (path: string): Promise<ListFile> => {
  let text: string
  try {
    const bytes = await readRegular(path, mostBytes)
    if (bytes.length > mostBytes)
      return unusable(`it is larger than ${mostBytes / 1024 / 1024} MiB; split it`)
    text = decodeUtf8(bytes)
  } catch (error) {
    const isUnread = error instanceof Error && 'code' in error
    return { ...unusable(fileFault(error)), isUnread }
  }
  return parseListFile(text)
}

const parseListFile = async (text: string): Promise<ListFile> => {
  const turn = pacer()
  const blocks: Cidr[] = []
  const faults: string[] = []
  let count = 0
  let line = 0
  for (let at = 0; at < text.length; line += 1) {
    const end = text.indexOf('\n', at)
    const whole = text.slice(at, end < 0 ? text.length : end)
    at = end < 0 ? text.length : end + 1
    const given = whole.replace(/#[^]*$/, '').trim()
    const block = given === '' ? undefined : readBlock(given)
    if (block !== undefined) blocks.push(block)
    else if (given !== '') {
      count += 1
      if (count <= mostFaults)
        faults.push(`line ${line + 1}: ${show(given)} is not ${blockForm}`)
    }
    const yields = turn()
    if (yields !== undefined) await yields
  }
  if (count > mostFaults) faults.push(`and ${count - mostFaults} more faults`)
  return { ranges: count > 0 ? nothing : addressRanges(blocks), faults }
}

/** What is wrong with a file of clients; `file` is its path, printable. */
export interface ListFault {
  readonly file: string
  readonly message: string
}

export interface ListFilesOptions {
  readonly clock?: Clock
  /** How often files are looked at; default 2000 ms. */
  readonly pollMs?: number
  /** One says something else, which counts from now on. */
  readonly onTaken?: (file: string) => void
  /** One can't be used any more: the old one stands. Once for each change of it. */
  readonly onUnusable?: (file: string, reason: string) => void
}

interface Known extends ListFile {
  /** What the kernel says of the file that was read; '' when that failed, so that it is read again. */
  seen: string
}

type RouteLists = Pick<Route, 'lists'>

/**
 * The files of clients that routes name, looked at again and again: a file is taken as a whole or
 * not at all, and while it can't be used its last good state counts.
 */
export class ListFiles {
  readonly #options: ListFilesOptions
  readonly #clock: Clock
  readonly #known = new Map<string, Known>()
  /** One object for a route until a file of its changes: then its Service is the same, too. */
  #clients = new WeakMap<RouteLists, ClientLists>()
  #changed: (() => void) | undefined
  readonly #poller: Poller

  constructor(options: ListFilesOptions = {}) {
    this.#options = options
    this.#clock = options.clock ?? systemClock
    this.#poller = new Poller(this.#clock, options.pollMs ?? 2000, async () => {
      for (const [path, known] of this.#known) await this.#pollFile(path, known)
    })
  }

  /** Reads the files of these routes that are not known yet. With a fault none of them is. */
  async load(routes: readonly RouteLists[]): Promise<readonly ListFault[]> {
    const found = new Map<string, Known>()
    for (const path of pathsOf(routes))
      if (!this.#known.has(path)) found.set(path, await read(path))
    const faults = [...found].flatMap(([path, file]) => faultsOf(path, file.faults))
    if (faults.length > 0) return faults
    for (const [path, known] of found) this.#known.set(path, known)
    this.#start()
    return []
  }

  /** Forgets the files of other routes. */
  keep(routes: readonly RouteLists[]): void {
    const wanted = pathsOf(routes)
    for (const path of this.#known.keys()) if (!wanted.has(path)) this.#known.delete(path)
  }

  /** From now on files are looked at, and `changed` is called when one has changed, or can't be used. */
  watch(changed: () => void): void {
    this.#changed = changed
    this.#start()
  }

  /** Who may be a client of a route; undefined: everybody. Its files must be known. */
  clientsOf(route: RouteLists): ClientLists | undefined {
    const { lists } = route
    if (lists === undefined) return undefined
    const known = this.#clients.get(route)
    if (known !== undefined) return known
    const { deny, allow, probers } = lists
    const clients = {
      ...(deny && { deny: this.#rangesOf(deny) }),
      ...(allow && { allow: this.#rangesOf(allow) }),
      ...(probers && { probers: this.#rangesOf(probers) }),
    }
    this.#clients.set(route, clients)
    return clients
  }

  /** Of files whose last good state counts. */
  get faults(): readonly ListFault[] {
    return [...this.#known].flatMap(([path, { faults }]) => faultsOf(path, faults))
  }

  /** Looks at each file, now. */
  poll(): Promise<void> {
    return this.#poller.now()
  }

  close(): void {
    this.#poller.close()
  }

  #start(): void {
    if (this.#changed !== undefined && this.#known.size > 0) this.#poller.start()
  }

  async #pollFile(path: string, known: Known): Promise<void> {
    let seen = await steady(this.#clock, known.seen, () =>
      signOf(path, { marksRacy: true }),
    )
    if (seen === known.seen) return
    const { ranges, faults, isUnread } = await readListFile(path)
    if (!this.#poller.isOn || this.#known.get(path) !== known) return
    if (isUnread) seen = ''
    const isUsable = faults.length === 0
    // What was read too soon after a change is read once more, and mostly says the same.
    const isUnchanged = isUnread === true || unmarked(seen) === unmarked(known.seen)
    if (
      isUnchanged &&
      isDeepStrictEqual(faults, known.faults) &&
      (!isUsable || isDeepStrictEqual(ranges, known.ranges))
    ) {
      known.seen = seen
      return
    }
    this.#known.set(path, { seen, faults, ranges: isUsable ? ranges : known.ranges })
    this.#clients = new WeakMap()
    const file = printable(path, 300)
    if (isUsable) this.#options.onTaken?.(file)
    else this.#options.onUnusable?.(file, firstFew(faults))
    this.#changed?.()
  }

  #rangesOf(entries: readonly string[]): readonly AddressRanges[] {
    const read = entries.map(readEntry)
    const blocks = read.flatMap(entry =>
      typeof entry === 'object' && 'block' in entry ? [entry.block] : [],
    )
    const files = read.flatMap(entry =>
      typeof entry === 'object' && 'path' in entry
        ? (this.#known.get(entry.path)?.ranges ?? [])
        : [],
    )
    return [...(blocks.length > 0 ? [addressRanges(blocks)] : []), ...files]
  }
}

const read = async (path: string): Promise<Known> => {
  // First: what is written meanwhile is found by the next poll.
  const seen = await signOf(path, { marksRacy: true })
  return { seen, ...(await readListFile(path)) }
}

const pathsOf = (routes: readonly RouteLists[]): ReadonlySet<string> =>
  new Set(
    routes
      .flatMap(({ lists = {} }) => Object.values(lists).flatMap(list => list ?? []))
      .flatMap(given => {
        const entry = readEntry(given)
        return typeof entry === 'object' && 'path' in entry ? [entry.path] : []
      }),
  )

const faultsOf = (path: string, faults: readonly string[]): readonly ListFault[] =>
  faults.map(message => ({ file: printable(path, 300), message }))
