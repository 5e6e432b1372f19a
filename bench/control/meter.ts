import { machineCpuSeconds, readUsage } from '../process/usage.ts'
import type { Phase } from './figures.ts'
import type { Livez } from './livez.ts'
import type { LoopBlock, UsherProcess } from './usher.ts'

/** What Usher used and how it answered, since the last time it was asked. */
export class Meter {
  readonly #usher: UsherProcess
  readonly #livez: Livez
  readonly #ours: readonly number[]
  #at = performance.now()
  #cpuSeconds = 0
  #ownSeconds: number
  #machineSeconds = machineCpuSeconds()
  #blocks = 0

  /** @param ours - processes of the bench, besides Usher's */
  constructor(usher: UsherProcess, livez: Livez, ours: readonly number[]) {
    this.#usher = usher
    this.#livez = livez
    this.#ours = ours
    this.#ownSeconds = this.#ownCpuSeconds()
  }

  /** The longest block up to a Unix time (ms); those are not counted again. */
  blockUntil(at: number): number {
    const blocks = this.#usher.blocks.slice(this.#blocks)
    const later = blocks.findIndex(block => block.from > at)
    const before = later === -1 ? blocks : blocks.slice(0, later)
    this.#blocks += before.length
    return longest(before)
  }

  take(): Phase {
    const { cpuSeconds } = this.#usher.usage()
    const now = performance.now()
    const own = this.#ownCpuSeconds()
    const machine = machineCpuSeconds()
    const others = machine - this.#machineSeconds - (own - this.#ownSeconds)
    const blocks = this.#usher.blocks.slice(this.#blocks)
    const phase = {
      cpuSeconds: cpuSeconds - this.#cpuSeconds,
      peakRssBytes: this.#usher.peakRssBytes(),
      longestBlockMs: longest(blocks),
      livezMs: this.#livez.take(),
      othersCores: Math.max(0, (others / (now - this.#at)) * 1000),
    }
    this.#cpuSeconds = cpuSeconds
    this.#blocks += blocks.length
    this.#at = now
    this.#ownSeconds = own
    this.#machineSeconds = machine
    return phase
  }

  #ownCpuSeconds(): number {
    return this.#ours.reduce(
      (sum, pid) => sum + (readUsage([pid])?.cpuSeconds ?? 0),
      this.#usher.usage().cpuSeconds,
    )
  }
}

const longest = (blocks: readonly LoopBlock[]): number =>
  blocks.reduce((most, { blockedMs }) => Math.max(most, blockedMs), 0)
