import { once } from 'node:events'
import { PassThrough, type Readable } from 'node:stream'
import { orAborted } from '../../util/wait.ts'
import { within } from '../../util/within.ts'
import { pacer } from '../../util/yielding.ts'
import type { Log } from '../log.ts'
import type { StatusInput } from '../status-document.ts'
import { LiveLook, type LiveLookDeps } from './live-look.ts'
import { event } from './live-rows.ts'

export interface ViewersDeps extends LiveLookDeps {
  readonly log: Pick<Log, 'error'>
}

/** Of 32 connections of the server, so that probes get in. */
export const mostViewers = 4
/** Bytes that wait for one of them. */
const mostWaiting = 64 * 1024
/** One that takes nothing for so long gives its place up; the kernel takes some megabytes for it first. */
const idleMs = 10_000

/**
 * Who watches the page. Each is told at its own pace what has changed since it was last told, so that
 * one who reads slowly skips looks and costs no memory. While there is nobody nothing is looked at.
 */
export class Viewers {
  readonly #deps: ViewersDeps
  readonly #open = new Set<PassThrough>()
  #look: LiveLook | undefined
  #stop = new AbortController()

  constructor(deps: ViewersDeps) {
    this.#deps = deps
  }

  /** What was found a moment ago, if somebody watches. */
  get latest(): StatusInput | undefined {
    return this.#look?.input
  }

  /** One more: what it is to read; undefined when there are as many as may be. */
  join(): Readable | undefined {
    if (this.#open.size >= mostViewers) return undefined
    const out = new PassThrough({ highWaterMark: mostWaiting })
    this.#open.add(out)
    out.once('close', () => this.#leaves(out))
    const look = (this.#look ??= this.#begin())
    void this.#tell(out, look)
    return out
  }

  #begin(): LiveLook {
    const look = new LiveLook(this.#deps)
    this.#stop = new AbortController()
    look.run(this.#stop.signal).catch((err: unknown) => {
      this.#deps.log.error({ err }, 'the live page could not be made; it is tried again')
      // They come again after a while.
      for (const out of this.#open) out.destroy()
    })
    return look
  }

  #leaves(out: PassThrough): void {
    this.#open.delete(out)
    if (this.#open.size > 0) return
    this.#stop.abort()
    this.#look = undefined
  }

  async #tell(out: PassThrough, look: LiveLook): Promise<void> {
    const gone = new AbortController()
    out.once('close', () => gone.abort())
    const turn = pacer()
    const write = async (piece: string): Promise<void> => {
      if (!out.write(piece)) await this.#isTaken(out, gone.signal)
      await turn()
    }
    try {
      await write(`retry: 2000\n\n${event('begin', 'null')}`)
      for (let since = 0; ;) {
        const { number } = look
        for (const piece of look.changes(since, number)) await write(piece)
        since = number
        await orAborted(look.later(number), gone.signal)
      }
    } catch {
      // It has left, or takes nothing; in either case that is its end.
      out.destroy()
    }
  }

  async #isTaken(out: PassThrough, gone: AbortSignal): Promise<void> {
    const taken = once(out, 'drain', { signal: gone })
    if ((await within(this.#deps.clock, idleMs, taken)) === undefined)
      throw new Error('it reads nothing')
  }
}
