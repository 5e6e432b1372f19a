import { watch, type FSWatcher } from 'node:fs'
import { stat } from 'node:fs/promises'
import { printable } from '../../util/printable.ts'
import { watchOf } from './list-files.ts'
import type { Clock, Timer } from '../../util/clock.ts'
import { messageOf } from '../../util/usher-error.ts'

interface Watch {
  readonly watcher: FSWatcher
  /** Device and inode: a directory that was replaced goes on under its old name. */
  readonly identity: string
  concerns: ((name: string) => boolean)[]
}

/**
 * Watches the directories that hold some paths, not those below them. A watch is on an
 * inode, so `renew` is to be called now and then: it follows directories that were
 * replaced. Where watching fails (NFS, inotify's limit) `onFailure` is called once.
 */
export class DirectoryWatches {
  readonly #paths: readonly string[]
  readonly #onChange: () => void
  readonly #onFailure: (text: string) => void
  readonly #watchDirectory: (directory: string) => FSWatcher
  readonly #watches = new Map<string, Watch>()
  #reported = false
  #closed = false

  constructor(
    paths: readonly string[],
    onChange: () => void,
    onFailure: (text: string) => void,
    watchDirectory: (directory: string) => FSWatcher = directory => watch(directory),
  ) {
    this.#watchDirectory = watchDirectory
    this.#paths = paths
    this.#onChange = onChange
    this.#onFailure = onFailure
  }

  /** Watches what is not watched yet. Resolves true when there was something new to watch. */
  async renew(): Promise<boolean> {
    let renewed = false
    const wanted = new Map<string, ((name: string) => boolean)[]>()
    for (const path of this.#paths) {
      const { directory, concerns } = await watchOf(path)
      wanted.set(directory, [...(wanted.get(directory) ?? []), concerns])
    }
    for (const [directory, concerns] of wanted)
      if (await this.#renewOne(directory, concerns)) renewed = true
    for (const directory of this.#watches.keys())
      if (!wanted.has(directory)) this.#drop(directory)
    return renewed
  }

  close(): void {
    this.#closed = true
    for (const directory of this.#watches.keys()) this.#drop(directory)
  }

  async #renewOne(
    directory: string,
    concerns: ((name: string) => boolean)[],
  ): Promise<boolean> {
    const identity = await identityOf(directory)
    const current = this.#watches.get(directory)
    if (current !== undefined) current.concerns = concerns
    if (this.#closed || current?.identity === identity) return false
    this.#drop(directory)
    // A directory that is not there can't be watched; the poll sees it come.
    if (identity === '') return false
    try {
      const watcher = this.#watchDirectory(directory)
      this.#watches.set(directory, { watcher, identity, concerns })
      watcher.on('change', (_, name) => this.#changed(directory, watcher, name))
      watcher.on('error', error => {
        if (this.#watches.get(directory)?.watcher !== watcher) return
        this.#drop(directory)
        this.#failed(directory, error)
      })
      return true
    } catch (error) {
      this.#failed(directory, error)
      return false
    }
  }

  #changed(directory: string, watcher: FSWatcher, name: string | Buffer | null): void {
    const current = this.#watches.get(directory)
    if (current?.watcher !== watcher) return
    // Some systems do not say which entry it was.
    const text = name?.toString()
    if (text === undefined || current.concerns.some(concerns => concerns(text)))
      this.#onChange()
  }

  #failed(directory: string, error: unknown): void {
    if (this.#reported || this.#closed) return
    this.#reported = true
    const reason = printable(messageOf(error), 300)
    this.#onFailure(
      `cannot watch ${printable(directory, 300)} (${reason}): changes are seen by looking at the files now and then`,
    )
  }

  #drop(directory: string): void {
    this.#watches.get(directory)?.watcher.close()
    this.#watches.delete(directory)
  }
}

const identityOf = async (directory: string): Promise<string> => {
  try {
    const { dev, ino } = await stat(directory)
    return `${dev}:${ino}`
  } catch {
    return ''
  }
}

/** One edit is several events: what comes within this time is one change. */
const quietMs = 50
/** A file that is written to all the time is still read now and then. */
const longestMs = 1000

/** Calls `run` once after a burst of `poke`s. */
export class Debounce {
  readonly #clock: Clock
  readonly #run: () => void
  #timer: Timer | undefined
  #since = 0

  constructor(clock: Clock, run: () => void) {
    this.#clock = clock
    this.#run = run
  }

  poke(): void {
    const now = this.#clock.now()
    if (this.#timer === undefined) this.#since = now
    else this.#clock.clearTimeout(this.#timer)
    const ms = Math.max(0, Math.min(quietMs, this.#since + longestMs - now))
    this.#timer = this.#clock.setTimeout(() => {
      this.#timer = undefined
      this.#run()
    }, ms)
  }

  cancel(): void {
    this.#clock.clearTimeout(this.#timer)
    this.#timer = undefined
  }
}
