import { badSource, type Source, type SourceSink, type SourceStatus } from '../source.ts'
import { problemText } from '../decode/problem.ts'
import { systemClock, type Clock } from '../../util/clock.ts'
import type { Problem } from '../../model/snapshot.ts'
import { firstFew, printable } from '../../util/printable.ts'
import { Debounce, DirectoryWatches } from './directory-watches.ts'
import { changesBetweenMany, type Applied, type SourceObject } from '../diff.ts'
import { FirstSight, type ManifestSet } from './read-manifests.ts'
import { readApart } from './read-apart.ts'
import { messageOf } from '../../util/usher-error.ts'
import { Poller, signOf } from '../../util/watched-file.ts'
import { listFiles } from './list-files.ts'

export interface ManifestSourceOptions {
  /** Files, and directories whose `.yaml`, `.yml` and `.json` files are read. */
  readonly paths: readonly string[]
  readonly clock?: Clock
  /** How often the files are looked at besides being watched; default 2000 ms. */
  readonly pollMs?: number
  /** Called once for each apiVersion and kind that is skipped. */
  readonly onSkipped?: (text: string) => void
  /**
   * Called once when files can't be watched and only the poll is left, and for what is
   * served although a cluster would refuse it.
   */
  readonly onWarning?: (text: string) => void
}

/**
 * Services from manifest files, read again when they change. While a file or document can't be
 * read or parsed nothing that was there goes, as it may be in that; what else is new or changed is
 * taken. An object with bad values keeps its own last good version. `prepare` and `start` reject when anything
 * of the very first state can't be read.
 */
export const manifestSource = (options: ManifestSourceOptions): Source =>
  new ManifestSource(options)

class ManifestSource implements Source {
  readonly #options: ManifestSourceOptions
  readonly #paths: readonly string[]
  readonly #clock: Clock
  readonly #watches: DirectoryWatches
  readonly #debounce: Debounce
  readonly #firstSight = new FirstSight()
  #sink: SourceSink | undefined
  #prepared: Promise<void> | undefined
  /** What has been read, until it is told. */
  #untold: { readonly set: ManifestSet; readonly isUsable: boolean } | undefined
  #applied: Applied = new Map()
  #skipped: readonly string[] = []
  #warned: readonly string[] = []
  #fingerprint = ''
  #transient = false
  #error = ''
  #synced = false
  #lastGoodAt: number | undefined
  readonly #poller: Poller
  /** It is to be read even if it looks the same. */
  #isAsked = false
  readonly #closing = new AbortController()

  constructor(options: ManifestSourceOptions) {
    this.#options = options
    this.#paths = options.paths
    this.#clock = options.clock ?? systemClock
    this.#debounce = new Debounce(this.#clock, () => this.reload())
    const onChange = () => this.#debounce.poke()
    const onFailure = (text: string) => options.onWarning?.(text)
    this.#watches = new DirectoryWatches(this.#paths, onChange, onFailure)
    this.#poller = new Poller(this.#clock, options.pollMs ?? 2000, () => this.#look())
  }

  prepare(): Promise<void> {
    return (this.#prepared ??= this.#readFirst())
  }

  async start(sink: SourceSink): Promise<void> {
    await this.prepare()
    this.#sink = sink
    // A look that is under way may have begun before there was a sink.
    while (!this.#synced && this.#poller.isOn) await this.#poller.now()
  }

  async #readFirst(): Promise<void> {
    // Watched before they are read: nothing can change unseen in between.
    await this.#watches.renew()
    this.#poller.start()
    this.reload()
    await this.#poller.looking
    if (this.#closing.signal.aborted || this.#untold?.isUsable === true) return
    const error = badSource(`--manifests: ${this.#error}`)
    await this.close()
    throw error
  }

  /** Reads now; during a read, once more after it. */
  reload(): void {
    this.#debounce.cancel()
    this.#isAsked = true
    void this.#poller.now()
  }

  reading(): Promise<void> | undefined {
    return this.#poller.looking
  }

  status(): SourceStatus {
    return {
      name: `manifests ${this.#paths.map(path => printable(path, 300)).join(', ')}`,
      synced: this.#synced,
      lastGoodAt: this.#lastGoodAt,
      error: this.#error,
    }
  }

  async close(): Promise<void> {
    this.#closing.abort()
    this.#watches.close()
    this.#debounce.cancel()
    this.#poller.close()
    await this.#poller.looking
  }

  async #read(): Promise<void> {
    try {
      const wait = () =>
        new Promise<void>(resolve => {
          this.#clock.setTimeout(resolve, 50)
        })
      const readOnce = () => readApart(this.#paths, this.#closing.signal)
      const read = await steadyRead(this.#paths, readOnce, wait)
      if (this.#closing.signal.aborted) return
      this.#fingerprint = read.fingerprint
      this.#transient = read.set.transient
      const vanished = this.#vanished(read.set)
      this.#error = summary(read.set.unreadable) || vanished
      const isUsable = this.#error === '' || (this.#synced && vanished === '')
      // Of one that is told in its place this one's changes come with the next look.
      if (!isUsable && this.#untold?.isUsable === true) this.#transient = true
      else this.#untold = { set: read.set, isUsable }
      await this.#tell()
    } catch (error) {
      // Not the files' fault, but they have not been read.
      this.#transient = true
      this.#error = messageOf(error)
    }
  }

  async #tell(): Promise<void> {
    const [sink, untold] = [this.#sink, this.#untold]
    if (sink === undefined || untold === undefined) return
    const { set, isUsable } = untold
    this.#untold = undefined
    if (isUsable) await this.#take(sink, set)
    if (!this.#closing.signal.aborted) sink.problems(set.problems)
  }

  /** A directory that lost its mount looks like one in which every file was deleted. */
  #vanished({ files }: ManifestSet): string {
    if (files > 0 || this.#applied.size === 0) return ''
    return 'all manifest files are gone; the last state stays in force. To serve nothing, leave a file with a comment'
  }

  async #take(sink: SourceSink, set: ManifestSet): Promise<void> {
    const objects = new Map<string, SourceObject>()
    for (const object of set.objects)
      objects.set(object.key, this.#firstSight.numbered(object))
    for (const key of set.refused) {
      const lastGood = this.#applied.get(key)
      if (lastGood !== undefined) objects.set(key, lastGood)
    }
    const hasHoles = set.unreadable.length > 0
    for (const [key, before] of hasHoles ? this.#applied : [])
      if (!objects.has(key)) objects.set(key, before)
    const changes = await changesBetweenMany(this.#applied, objects)
    if (this.#closing.signal.aborted) return
    if (changes.length > 0 || !this.#synced) sink.apply(changes)
    this.#applied = objects
    this.#firstSight.keepOnly(objects)
    if (!hasHoles) this.#lastGoodAt = Date.now()
    for (const text of set.skipped)
      if (!this.#skipped.includes(text)) this.#options.onSkipped?.(text)
    this.#skipped = set.skipped
    this.#warn(set.warnings)
    if (this.#synced) return
    this.#synced = true
    sink.synced()
  }

  /** One line at a time, however many objects are alike. */
  #warn(warnings: readonly string[]): void {
    const known = new Set(this.#warned)
    const [first, ...more] = warnings.filter(text => !known.has(text))
    this.#warned = warnings
    if (first === undefined) return
    this.#options.onWarning?.(
      more.length === 0 ? first : `${first} (and ${more.length} more)`,
    )
  }

  async #look(): Promise<void> {
    const isAsked = this.#isAsked
    this.#isAsked = false
    await this.#tell()
    if (isAsked || (await this.#hasChanged())) await this.#read()
    else if (this.#error === '') this.#lastGoodAt = Date.now()
  }

  async #hasChanged(): Promise<boolean> {
    const renewed = await this.#watches.renew()
    const now = await fingerprint(this.#paths)
    return renewed || this.#transient || now !== this.#fingerprint
  }
}

/** What is wrong, on one line; '' when nothing is. */
const summary = (unreadable: readonly Problem[]): string =>
  firstFew(unreadable.map(problemText))

/** A text that differs when a file behind `paths` has been changed, replaced, added or removed. */
const fingerprint = async (paths: readonly string[]): Promise<string> => {
  const { files, failures } = await listFiles(paths)
  const lines = failures.map(({ path, message }) => `${path}\0${message}`)
  for (const file of files)
    lines.push(`${file}\0${await signOf(file, { marksRacy: true })}`)
  return lines.join('\n')
}

interface SteadyRead {
  readonly set: ManifestSet
  /** Of the files as they were before they were read. */
  readonly fingerprint: string
}

/** Something that writes without pause gets read in the middle at last. */
const mostAttempts = 5

/**
 * Calls `read` when `paths` hold still: a set in the middle of which a file changed is not
 * one that ever was, and is read again after `wait`.
 */
const steadyRead = async (
  paths: readonly string[],
  read: () => Promise<ManifestSet>,
  wait: () => Promise<void>,
): Promise<SteadyRead> => {
  for (let attempt = 1; ; attempt++) {
    const before = await fingerprint(paths)
    const set = await read()
    if (attempt === mostAttempts || before === (await fingerprint(paths)))
      return { set, fingerprint: before }
    await wait()
  }
}
