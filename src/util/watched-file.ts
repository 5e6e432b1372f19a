import { stat } from 'node:fs/promises'
import { isDeepStrictEqual } from 'node:util'
import type { Clock, Timer } from './clock.ts'
import { messageOf } from './usher-error.ts'

// How it is noticed that a file has changed: by looking at it again and again, which finds every way
// in which one may be written or replaced, the symlink swaps of a ConfigMap among them.

/** Looks again and again, one look at a time. */
export class Poller {
  readonly #clock: Clock
  readonly #everyMs: number
  readonly #look: () => Promise<void>
  #timer: Timer | undefined
  #looking: Promise<void> | undefined
  #again = false
  #state: 'new' | 'on' | 'closed' = 'new'

  /** `everyMs` is from the end of a look to the next. `look` never rejects. */
  constructor(clock: Clock, everyMs: number, look: () => Promise<void>) {
    this.#clock = clock
    this.#everyMs = everyMs
    this.#look = look
  }

  get isOn(): boolean {
    return this.#state === 'on'
  }

  /** The look that is under way. */
  get looking(): Promise<void> | undefined {
    return this.#looking
  }

  /** From now on it looks. */
  start(): void {
    if (this.#state !== 'new') return
    this.#state = 'on'
    this.#schedule()
  }

  /** Looks at once; during a look, once more after it. */
  async now(): Promise<void> {
    if (!this.isOn) return
    this.#clock.clearTimeout(this.#timer)
    this.#again = this.#looking !== undefined
    this.#looking ??= this.#look().finally(() => {
      this.#looking = undefined
      if (this.#again) void this.now()
      else this.#schedule()
    })
    await this.#looking
  }

  close(): void {
    this.#state = 'closed'
    this.#clock.clearTimeout(this.#timer)
  }

  #schedule(): void {
    if (this.isOn)
      this.#timer = this.#clock.setTimeout(() => void this.now(), this.#everyMs)
  }
}

/**
 * Another one when the file is another, or was written: inode, size and both times. Never rejects: what
 * can't be looked at has its reason. With `marksRacy`, a file whose time is as good as now is marked, so
 * that it has another sign when that has passed: two writes within one tick of the file system's clock
 * leave the same time (git's "racily clean" entries).
 */
export const signOf = async (
  path: string,
  { marksRacy = false } = {},
): Promise<string> => {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs } = await stat(path, { bigint: true })
    const age = Date.now() - Number(ctimeNs / 1_000_000n)
    const isRacy = marksRacy && age >= 0 && age < settledMs
    return [dev, ino, size, mtimeNs, ctimeNs].join(' ') + (isRacy ? racy : '')
  } catch (error) {
    return messageOf(error)
  }
}

/** Milliseconds: a file changed more recently than this may change again and look the same. */
const settledMs = 2000

const racy = ' racy'

/** A sign without the mark. */
export const unmarked = (sign: string): string => sign.replace(racy, '')

/** What is found counts when it is the same after so long: a writer may be in the middle of it. */
const steadyMs = 100

/** Something that writes without pause gets read in the middle at last. */
const mostReads = 5

/** What `read` gives once that is what was there `before`, or is the same twice in a row. */
export const steady = async <T>(
  clock: Clock,
  before: T,
  read: () => Promise<T>,
): Promise<T> => {
  let last = before
  for (let reads = 1; ; reads++) {
    const found = await read()
    if (isDeepStrictEqual(found, last) || reads === mostReads) return found
    last = found
    await new Promise<void>(resolve => void clock.setTimeout(resolve, steadyMs))
  }
}
