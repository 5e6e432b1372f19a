import { constants, fstatSync, openSync, writeSync } from 'node:fs'

export interface LogOutputOptions {
  readonly fd: number
  /** Lines are gathered up to so many bytes, and for `flushMs`; 0 writes each at once. */
  readonly gatherBytes: number
  readonly flushMs: number
  /** Beyond so many waiting bytes lines are dropped: a stuck reader must not cost memory. */
  readonly mostWaitingBytes: number
  /** Called once for each way in which records are lost. */
  readonly complain: (what: string) => void
}

const retryMs = 100
const lastLinesMs = 200

/**
 * Lines to a descriptor, written so that neither the data path nor the end of the process
 * ever waits for the reader: a full disk, a reader that has gone and a terminal that was
 * stopped cost records, nothing else.
 */
export class LogOutput {
  readonly #options: LogOutputOptions
  readonly #complaints = new Set<string>()
  #gathered = ''
  #rest: Buffer = Buffer.alloc(0)
  /** To be told if what waits is lost. */
  #lost: (() => void)[] = []
  #timer: NodeJS.Timeout | undefined

  constructor(options: LogOutputOptions) {
    this.#options = options
  }

  /** `lost` is called when the line, or some of several, can't be written. */
  write(line: string, lost?: () => void): void {
    const { gatherBytes, flushMs, mostWaitingBytes } = this.#options
    if (this.#rest.length + this.#gathered.length + line.length > mostWaitingBytes) {
      lost?.()
      return this.#complain('the reader is too slow')
    }
    this.#gathered += line
    if (lost !== undefined) this.#lost.push(lost)
    if (this.#gathered.length >= gatherBytes && this.#rest.length === 0) this.#flush()
    else this.#flushAfter(flushMs)
  }

  /** What can be written at once; for the end of the process. */
  end(): void {
    const until = performance.now() + lastLinesMs
    clearTimeout(this.#timer)
    while (this.#flush() && performance.now() < until) pause(10)
    clearTimeout(this.#timer)
  }

  /** True while something waits. */
  #flush(): boolean {
    const all = Buffer.concat([this.#rest, Buffer.from(this.#gathered)])
    this.#gathered = ''
    this.#rest = all
    try {
      while (this.#rest.length > 0) {
        this.#rest = this.#rest.subarray(writeSync(this.#options.fd, this.#rest))
      }
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException
      if (code === 'EAGAIN') {
        this.#flushAfter(retryMs)
        return true
      }
      this.#rest = Buffer.alloc(0)
      for (const lost of this.#lost) lost()
      this.#complain(message)
    }
    this.#lost = []
    return false
  }

  #flushAfter(ms: number): void {
    if (this.#timer !== undefined) return
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      this.#flush()
    }, ms)
    this.#timer.unref()
  }

  #complain(what: string): void {
    if (this.#complaints.has(what)) return
    this.#complaints.add(what)
    this.#options.complain(what)
  }
}

/**
 * A standard descriptor (1 or 2), such that a write never waits. A pipe or a terminal is
 * opened a second time for that: to set O_NONBLOCK on the descriptor itself would set it
 * for every process that shares it (open(2)). Where there is no /proc, as it is.
 */
export const withoutWaiting = (fd: 1 | 2): number => {
  try {
    const kind = fstatSync(fd)
    if (!kind.isFIFO() && !kind.isCharacterDevice()) return fd
    return openSync(`/proc/self/fd/${fd}`, constants.O_WRONLY | constants.O_NONBLOCK)
  } catch {
    return fd // Not Linux, or closed: then writing fails.
  }
}

/** Says something on standard error if that can be done at once. */
export const writeStderr = (text: string): void => {
  try {
    writeSync(withoutWaiting(2), text)
  } catch {
    // It can't be written to either, and there is no other place to report it.
  }
}

const pause = (ms: number): void => {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}
