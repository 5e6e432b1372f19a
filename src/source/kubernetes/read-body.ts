import type { IncomingMessage } from 'node:http'
import type { Clock, Timer } from '../../util/clock.ts'
import { pacer } from '../../util/list-diff.ts'
import { UsherError } from '../../util/usher-error.ts'

export interface BodyReader {
  readonly clock: Clock
  /** The body is cut off when nothing comes for so many milliseconds. */
  readonly silenceMs: number
  readonly chunk: (chunk: Buffer) => void | Promise<void>
}

/**
 * Reads a body to its end, chunk by chunk, without holding the event loop. Rejects when
 * the connection breaks, falls silent or `chunk` throws; the body is destroyed then.
 */
export const readBody = async (
  body: IncomingMessage,
  { clock, silenceMs, chunk }: BodyReader,
): Promise<void> => {
  const turn = pacer()
  const watchdog = new Watchdog(clock, silenceMs, () =>
    body.destroy(
      new UsherError('SILENCE', `no data for ${Math.round(silenceMs / 1000)} s`),
    ),
  )
  try {
    for await (const part of body as AsyncIterable<Buffer>) {
      watchdog.touch()
      const work = chunk(part)
      if (work !== undefined) await work
      await turn()
    }
  } finally {
    watchdog.stop()
  }
}

/** The first `limit` bytes of a body as text; the rest is thrown away with the connection. */
export const readStart = async (
  body: IncomingMessage,
  limit: number,
  options: Omit<BodyReader, 'chunk'>,
): Promise<string> => {
  const parts: Buffer[] = []
  let size = 0
  const full = new Error('enough')
  try {
    await readBody(body, {
      ...options,
      chunk: part => {
        parts.push(part)
        if ((size += part.length) > limit) throw full
      },
    })
  } catch (error) {
    if (error !== full && size === 0) return ''
  }
  return Buffer.concat(parts).subarray(0, limit).toString('utf8')
}

/** Calls `expired` once when `touch` has not been called for so long. Cheap to touch. */
export class Watchdog {
  readonly #clock: Clock
  readonly #ms: number
  readonly #expired: () => void
  #touchedAt: number
  #timer: Timer

  constructor(clock: Clock, ms: number, expired: () => void) {
    this.#clock = clock
    this.#ms = ms
    this.#expired = expired
    this.#touchedAt = clock.now()
    this.#timer = clock.setTimeout(() => this.#check(), ms)
  }

  touch(): void {
    this.#touchedAt = this.#clock.now()
  }

  stop(): void {
    this.#clock.clearTimeout(this.#timer)
  }

  #check(): void {
    const left = this.#touchedAt + this.#ms - this.#clock.now()
    if (left <= 0) this.#expired()
    else this.#timer = this.#clock.setTimeout(() => this.#check(), left)
  }
}
