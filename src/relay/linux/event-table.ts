const smallest = 1024

/**
 * What each watched descriptor belongs to, and in which use of its number. A descriptor's
 * number is used again as soon as it is closed, and events of the earlier socket may come
 * later still: from the batch that is being handled, and for as long as a child of this process
 * that has not called execve(2) yet holds a copy of it (epoll(7), Q6). So each use of a number
 * has a generation of its own, which the kernel keeps beside it, and an event of an earlier one
 * is dropped.
 */
export class EventTable<Source, Item> {
  #generations = new Int32Array(0)
  readonly #sources: (Source | undefined)[] = []
  readonly #items: (Item | undefined)[] = []

  open(fd: number, source: Source, item: Item): void {
    if (fd < 0) return
    if (fd >= this.#generations.length) this.#grow(fd)
    this.#sources[fd] = source
    this.#items[fd] = item
    this.#renew(fd)
  }

  /** The present use of it is another one's: its events stay valid. */
  pass(fd: number, source: Source, item: Item): void {
    this.#sources[fd] = source
    this.#items[fd] = item
  }

  /** Events of its present use are dropped from now on. */
  close(fd: number): void {
    if (!this.isOpen(fd)) return
    this.#sources[fd] = undefined
    this.#items[fd] = undefined
    this.#renew(fd)
  }

  isOpen(fd: number): boolean {
    return this.#sources[fd] !== undefined
  }

  /** The source of the descriptor, if an event of `generation` is of its present use. */
  sourceOf(fd: number, generation: number): Source | undefined {
    return this.#generations[fd] === generation ? this.#sources[fd] : undefined
  }

  item(fd: number): Item | undefined {
    return this.#items[fd]
  }

  /** What its events are to carry. */
  generation(fd: number): number {
    return this.#generations[fd] ?? 0
  }

  /** 32 bits: the next of the same number comes after 4 billion uses of one descriptor. */
  #renew(fd: number): void {
    this.#generations[fd] = ((this.#generations[fd] ?? 0) + 1) | 0
  }

  #grow(fd: number): void {
    const size = Math.max(smallest, 2 ** Math.ceil(Math.log2(fd + 1)))
    const larger = new Int32Array(size)
    larger.set(this.#generations)
    this.#generations = larger
    // Without gaps: an array with many becomes a dictionary.
    while (this.#sources.length < size) this.#sources.push(undefined)
    while (this.#items.length < size) this.#items.push(undefined)
  }
}
