import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { PassThrough, type Readable } from 'node:stream'
import { forPeople } from '../../page/format.ts'
import { takenEveryMs } from '../../page/wire.ts'
import type { Timer } from '../../util/clock.ts'
import { orAborted } from '../../util/wait.ts'
import { pacer } from '../../util/yielding.ts'
import type { Log } from '../log.ts'
import type { StatusInput } from '../status-document.ts'
import { LiveLook, type LiveLookDeps } from './live-look.ts'
import { event } from './live-rows.ts'

export interface ViewersDeps extends LiveLookDeps {
  readonly log: Pick<Log, 'error' | 'warn'>
}

/** Of 32 connections of the server, so that probes get in. */
export const mostViewers = 4
/** Bytes that wait for one of them. */
const mostWaiting = 64 * 1024
/**
 * One that has not said for so long that it takes what comes gives its place up: it reads nothing, or
 * its host is gone. Only the page can say it: kernels take megabytes for who reads nothing.
 */
const untakenMs = 4 * takenEveryMs
/** Who has the places is said once in so long. */
const sayWhoEveryMs = 60_000

interface Viewer {
  readonly out: PassThrough
  /** `ip:port`. */
  readonly client: string
  readonly since: number
  /** Ends it; undefined while nothing is there that it has not taken. */
  cut: Timer | undefined
}

/**
 * Who watches the page. Each is told at its own pace what has changed since it was last told, so that
 * one who reads slowly skips looks and costs no memory. While there is nobody nothing is looked at.
 */
export class Viewers {
  readonly #deps: ViewersDeps
  /** By names that only they know. */
  readonly #open = new Map<string, Viewer>()
  #look: LiveLook | undefined
  #stop = new AbortController()
  #saidWhoAt = -Infinity

  constructor(deps: ViewersDeps) {
    this.#deps = deps
  }

  /** What was found a moment ago, if somebody watches. */
  get latest(): StatusInput | undefined {
    return this.#look?.input
  }

  /** One more: what it is to read; undefined when there are as many as may be. */
  join(client: string): Readable | undefined {
    if (this.#open.size >= mostViewers) {
      this.#sayWho(client)
      return undefined
    }
    const id = randomUUID()
    const out = new PassThrough({ highWaterMark: mostWaiting })
    const viewer: Viewer = { out, client, since: this.#deps.clock.now(), cut: undefined }
    this.#open.set(id, viewer)
    out.once('close', () => this.#leaves(id, viewer))
    const look = (this.#look ??= this.#begin())
    void this.#tell(id, viewer, look)
    return out
  }

  /** It has taken what came; false: there is no such viewer. */
  takes(id: string): boolean {
    const viewer = this.#open.get(id)
    if (viewer === undefined) return false
    this.#deps.clock.clearTimeout(viewer.cut)
    // While it is full nothing is written, which would begin the time anew.
    viewer.cut = viewer.out.writableNeedDrain ? this.#cutLater(viewer) : undefined
    return true
  }

  #cutLater({ out }: Viewer): Timer {
    return this.#deps.clock.setTimeout(() => out.destroy(), untakenMs)
  }

  /** In the log, not to who is refused: that may be anybody. */
  #sayWho(refused: string): void {
    const { clock, log } = this.#deps
    const now = clock.now()
    if (now - this.#saidWhoAt < sayWhoEveryMs) return
    this.#saidWhoAt = now
    const viewers = [...this.#open.values()].map(
      ({ client, since }) => `${client} for ${forPeople(now - since)}`,
    )
    log.warn({ client: refused, viewers }, 'the live page has as many viewers as may be')
  }

  #begin(): LiveLook {
    const look = new LiveLook(this.#deps)
    this.#stop = new AbortController()
    look.run(this.#stop.signal).catch((err: unknown) => {
      this.#deps.log.error({ err }, 'the live page could not be made; it is tried again')
      // They come again after a while.
      for (const { out } of this.#open.values()) out.destroy()
    })
    return look
  }

  #leaves(id: string, { cut }: Viewer): void {
    this.#deps.clock.clearTimeout(cut)
    this.#open.delete(id)
    if (this.#open.size > 0) return
    this.#stop.abort()
    this.#look = undefined
  }

  async #tell(id: string, viewer: Viewer, look: LiveLook): Promise<void> {
    const { out } = viewer
    const gone = new AbortController()
    out.once('close', () => gone.abort())
    const turn = pacer()
    const write = async (piece: string): Promise<void> => {
      gone.signal.throwIfAborted()
      viewer.cut ??= this.#cutLater(viewer)
      if (!out.write(piece)) await once(out, 'drain', { signal: gone.signal })
      await turn()
    }
    try {
      await write(`retry: 2000\n\n${event('begin', JSON.stringify(id))}`)
      for (let since = 0; ;) {
        const { number } = look
        for (const piece of look.changes(since, number)) await write(piece)
        since = number
        await orAborted(look.later(number), gone.signal)
      }
    } catch {
      // It has left, or was made to.
      out.destroy()
    }
  }
}
