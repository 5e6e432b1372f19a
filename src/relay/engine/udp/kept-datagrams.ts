import type { Syscalls, NativeMemory } from '../../../ffi/syscalls.ts'
import { type DatagramBatch, slotBytes } from './datagram-batch.ts'

/** Of all flows of a worker. */
const mostKeptBytes = 32 << 20

/** What a flow that has been answered keeps: a longer one costs more to copy than it helps. */
const mostOfAnswered = 2048

/** Up to here a loop over words beats `set`, which needs a view of the source. */
const fewWords = 64

/** A flow's last datagram. */
export interface Keeper {
  readonly answered: boolean
  kept: Int32Array | undefined
  /** In bytes; -1 when there is none. */
  keptLength: number
}

/**
 * Copies of the last datagram of each flow, to be sent once more when its endpoint refuses
 * it: the refusal comes when the memory it was received in has the next ones.
 */
export class KeptDatagrams {
  readonly #calls: Syscalls
  readonly #outgoing: NativeMemory
  #left = mostKeptBytes

  constructor(calls: Syscalls) {
    this.#calls = calls
    this.#outgoing = calls.allocate(slotBytes)
  }

  keep(keeper: Keeper, batch: DatagramBatch, slot: number): void {
    const length = batch.length(slot)
    const words = (length + 3) >> 2
    keeper.keptLength = -1
    if (keeper.answered) {
      // Of a long one from before the answer the memory goes, too.
      if ((keeper.kept?.byteLength ?? 0) > mostOfAnswered) this.forget(keeper)
      if (length > mostOfAnswered) return
    }
    const kept = this.#room(keeper, words)
    if (kept === undefined) return
    const from = batch.dataWords
    const start = batch.dataStart(slot) >> 2
    if (words > fewWords) kept.set(from.subarray(start, start + words))
    else for (let i = 0; i < words; i += 1) kept[i] = from[start + i] ?? 0
    keeper.keptLength = length
  }

  /** Sends it over a connected socket: 0 or more, or -errno. */
  send(fd: number, { kept, keptLength }: Keeper): number {
    const length = Math.max(keptLength, 0)
    if (kept !== undefined) this.#outgoing.words.set(kept.subarray(0, (length + 3) >> 2))
    return this.#calls.write(fd, this.#outgoing.address, length)
  }

  forget(keeper: Keeper): void {
    this.#left += keeper.kept?.byteLength ?? 0
    keeper.kept = undefined
    keeper.keptLength = -1
  }

  #room(keeper: Keeper, words: number): Int32Array | undefined {
    const { kept } = keeper
    if (kept !== undefined && kept.length >= words) return kept
    const size = Math.max(16, 2 ** Math.ceil(Math.log2(words)))
    const more = size * 4 - (kept?.byteLength ?? 0)
    if (more > this.#left) return undefined
    this.#left -= more
    keeper.kept = new Int32Array(size)
    return keeper.kept
  }
}
