import { moved } from './moved.ts'

const none = 255
const smallest = 1024

/**
 * Which source each watched descriptor belongs to, by descriptor and generation. A descriptor's
 * number is used again as soon as it is closed, and the kernel may tell of the earlier socket
 * later still: from the batch that is being handled, and for as long as a child of this process
 * that has not called execve(2) yet holds a copy of it (epoll(7), Q6). So each use of a number
 * has a generation of its own, which the kernel keeps beside it, and an event of an earlier one
 * belongs to nobody.
 */
export class EventTable {
  #generations = new Int32Array(0)
  #sources = new Uint8Array(0)
  #indexes = new Uint32Array(0)

  /** `source` is below 255. */
  open(fd: number, source: number, index: number): void {
    if (fd < 0) return
    if (fd >= this.#sources.length) this.#grow(fd)
    this.#sources[fd] = source
    this.#indexes[fd] = index
    this.#renew(fd)
  }

  /** The present use of it is another one's: its events stay valid. */
  pass(fd: number, source: number, index: number): void {
    this.#sources[fd] = source
    this.#indexes[fd] = index
  }

  /** What was told of it so far belongs to nobody. */
  close(fd: number): void {
    if (!this.isOpen(fd)) return
    this.#sources[fd] = none
    this.#renew(fd)
  }

  isOpen(fd: number): boolean {
    return (this.#sources[fd] ?? none) !== none
  }

  /** Whether an event of `generation` is the present one's of `fd`. */
  isPresent(fd: number, generation: number): boolean {
    return this.#generations[fd] === generation && this.isOpen(fd)
  }

  /** What its events are to carry. */
  generation(fd: number): number {
    return this.#generations[fd] ?? 0
  }

  source(fd: number): number {
    return this.#sources[fd] ?? none
  }

  index(fd: number): number {
    return this.#indexes[fd] ?? 0
  }

  /** 32 bits: the next of the same number comes after 4 billion uses of one descriptor. */
  #renew(fd: number): void {
    this.#generations[fd] = ((this.#generations[fd] ?? 0) + 1) | 0
  }

  #grow(fd: number): void {
    const size = Math.max(smallest, 2 ** Math.ceil(Math.log2(fd + 1)))
    this.#sources = moved(this.#sources, new Uint8Array(size).fill(none))
    this.#generations = moved(this.#generations, new Int32Array(size))
    this.#indexes = moved(this.#indexes, new Uint32Array(size))
  }
}
