import * as c from '../../../../src/ffi/constants.ts'
import { errno } from '../../../../src/ffi/errno.ts'
import type { NativeMemory } from '../../../../src/ffi/syscalls.ts'
import type { TcpWorker } from './tcp-worker.ts'

const period = 1 << 20
const pieceBytes = 1 << 18

/** What all peers of a test share. */
export interface Playground {
  readonly worker: TcpWorker
  readonly random: () => number
  /** `period` bytes, twice, so that a piece from anywhere lies in one row. */
  readonly pattern: NativeMemory
  readonly read: NativeMemory
  readonly longest: number
  readonly wrong: string[]
}

export const newPattern = (
  allocate: (bytes: number) => NativeMemory,
  random: () => number,
): NativeMemory => {
  const pattern = allocate(2 * period)
  for (let i = 0; i < period; i += 1) pattern.bytes[i] = random() * 256
  pattern.bytes.copy(pattern.bytes, period, 0, period)
  return pattern
}

/** One outer end of a connection that does things by chance, and checks what it gets. */
export class RandomPeer {
  readonly #ground: Playground
  readonly #name: string
  readonly #fd: number
  readonly #base: number
  opposite: RandomPeer | undefined
  sent = 0
  got = 0
  #goal = 0
  #wantsEnd = false
  #isPaused = false
  /** Its FIN was sent, and before it everything. */
  isEnded = false
  /** It has closed or reset, in the midst of things perhaps. */
  isGone = false
  /** It has reset, so that there is no FIN unless one was sent before. */
  hasReset = false
  /** It got an error: nothing moves any more. */
  isBroken = false
  sawEnd = false

  constructor(ground: Playground, name: string, fd: number) {
    this.#ground = ground
    this.#name = name
    this.#fd = fd
    this.#base = Math.floor(ground.random() * period)
  }

  /** Nothing more is going to happen to it. */
  get isOver(): boolean {
    return this.isGone || this.isBroken || (this.isEnded && this.sawEnd)
  }

  /** One thing by chance. */
  act(): void {
    if (this.isGone) return
    const { random, longest } = this.#ground
    const chance = random()
    if (chance < 0.6 && !this.#wantsEnd) this.#goal += size(random, longest)
    else if (chance < 0.72) this.#isPaused = true
    else if (chance < 0.9) this.#isPaused = false
    else if (chance < 0.96) this.#wantsEnd = true
    else if (chance < 0.98) this.#reset()
    else if (chance < 0.99) this.#close()
  }

  /** From now on it does what it has begun, and ends. */
  finish(): void {
    this.#isPaused = false
    this.#wantsEnd = true
  }

  /** Writes and reads some of what it can. */
  move(): void {
    if (this.isGone || this.isBroken) return
    if (!this.isEnded) this.#write()
    if (!this.#isPaused && !this.sawEnd && !this.isBroken) this.#read()
  }

  describe(): string {
    const { sent, got, isEnded, isGone, isBroken, sawEnd } = this
    const facts = { sent, got, isEnded, isGone, isBroken, sawEnd }
    return `${this.#name} ${JSON.stringify(facts)}`
  }

  #write(): void {
    const { worker, pattern, random } = this.#ground
    const most = Math.min(this.#goal - this.sent, 1 + Math.floor(random() * pieceBytes))
    if (most > 0) {
      const from = pattern.address + ((this.#base + this.sent) % period)
      const count = worker.bench.calls.send(this.#fd, from, most, c.MSG_NOSIGNAL)
      if (count > 0) this.sent += count
      else if (count !== -errno.EAGAIN) return this.#broken(count)
    }
    if (!this.#wantsEnd || this.sent < this.#goal) return
    worker.endOf(this.#fd)
    this.isEnded = true
  }

  #read(): void {
    const { worker, read, random } = this.#ground
    const most = 1 + Math.floor(random() * pieceBytes)
    const count = worker.bench.calls.recv(this.#fd, read.address, most, 0)
    if (count === 0) this.#end()
    else if (count > 0) this.#check(count)
    else if (count !== -errno.EAGAIN) this.#broken(count)
  }

  #check(count: number): void {
    const { pattern, read } = this.#ground
    const { opposite } = this
    if (opposite === undefined) return this.#wrong('reads before anybody is there')
    const start = (opposite.#base + this.got) % period
    const isRight =
      pattern.bytes.compare(read.bytes, 0, count, start, start + count) === 0
    if (!isRight) this.#wrong(`wrong bytes after ${this.got}`)
    this.got += count
    if (this.got > opposite.sent) this.#wrong('more than was sent')
  }

  #end(): void {
    this.sawEnd = true
    const { opposite } = this
    if (opposite === undefined) return
    if (!opposite.isEnded && !opposite.isGone) this.#wrong('an end that nobody sent')
    if (opposite.hasReset && !opposite.isEnded) this.#wrong('an end in place of a reset')
    if (this.got !== opposite.sent) this.#wrong('an end before the end')
  }

  #broken(result: number): void {
    this.isBroken = true
    const { opposite } = this
    if (!opposite?.isGone) this.#wrong(`an error that nobody caused: ${result}`)
  }

  #reset(): void {
    this.#ground.worker.reset(this.#fd)
    this.isGone = true
    this.hasReset = true
  }

  #close(): void {
    this.#ground.worker.bench.close(this.#fd)
    this.isGone = true
  }

  #wrong(what: string): void {
    const { wrong } = this.#ground
    if (wrong.length < 10) {
      wrong.push(`${what}: ${this.describe()}, ${this.opposite?.describe()}`)
    }
  }
}

/** Of what is written at once: a few bytes as often as megabytes. */
const size = (random: () => number, longest: number): number => {
  const most = [16, longest / 256, longest / 16, longest][Math.floor(random() * 4)] ?? 1
  return 1 + Math.floor(random() * most)
}
