const beatCell = 0
const heldCell = 1

/**
 * What the main thread can see of a worker without asking it, in memory that both share. The
 * worker writes, and a 64-bit number is written at once.
 */
export class WorkerSigns {
  readonly memory: SharedArrayBuffer
  readonly #cells: Float64Array

  constructor(memory = new SharedArrayBuffer(16)) {
    this.memory = memory
    this.#cells = new Float64Array(memory)
  }

  /**
   * Goes up with each turn of the loop, and with each event that is handled. NaN, which is like no
   * number, while it waits for events: the kernel wakes it.
   */
  get beats(): number {
    const beats = this.#cells[beatCell] ?? 0
    return beats < 0 ? NaN : beats
  }

  beat(): void {
    this.#cells[beatCell] = Math.abs(this.#cells[beatCell] ?? 0) + 1
  }

  /** It waits for events, until the next beat. */
  markIdle(): void {
    this.#cells[beatCell] = -(this.#cells[beatCell] ?? 0)
  }

  /** Bytes that were read from one side of a connection and not taken by the other yet. */
  get heldBytes(): number {
    return this.#cells[heldCell] ?? 0
  }

  hold(bytes: number): void {
    this.#cells[heldCell] = (this.#cells[heldCell] ?? 0) + bytes
  }

  /** For the next worker in its place. */
  clear(): void {
    this.#cells.fill(0)
  }
}
