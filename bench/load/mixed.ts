import type { Findings, Load } from './load.ts'
import { OpenLoopLoad } from './open-loop.ts'
import type { Mixed } from './question.ts'
import { SinkThread } from './sink-thread.ts'

/**
 * Requests at a fixed rate beside one download. A thread of its own takes the download:
 * in the generator's it would be the generator that makes requests wait.
 */
export class MixedLoad implements Load {
  readonly #small: OpenLoopLoad
  readonly #stream: SinkThread
  #bytesAtOpen = 0
  #bytesAtClose = 0

  constructor({ download, ...small }: Omit<Mixed, 'kind'>) {
    this.#small = new OpenLoopLoad(small)
    this.#stream = new SinkThread(download, this.#small.errors)
  }

  get errors(): OpenLoopLoad['errors'] {
    return this.#small.errors
  }

  done(): number {
    return this.#small.done()
  }

  async ready(): Promise<void> {
    await Promise.all([this.#small.ready(), this.#stream.started])
  }

  openWindow(): void {
    this.#bytesAtOpen = this.#stream.bytes
    this.#small.openWindow()
  }

  async closeWindow(): Promise<void> {
    this.#bytesAtClose = this.#stream.bytes
    if (this.#bytesAtClose === this.#bytesAtOpen) this.errors.add('nothing came')
    await this.#small.closeWindow()
  }

  findings(): Findings {
    const besideBytes = this.#bytesAtClose - this.#bytesAtOpen
    return { ...this.#small.findings(), besideBytes }
  }

  async stop(): Promise<void> {
    await Promise.all([this.#small.stop(), this.#stream.stop()])
  }
}
