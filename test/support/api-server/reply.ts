import type { ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Connection } from './connections.ts'
import type { Fault } from './faults.ts'

const trickleEveryMs = 20

/** An answer on its way: the one place where bytes are written, and where they go wrong. */
export class Reply {
  readonly #response: ServerResponse
  readonly #connection: Connection
  readonly #fault: Fault | undefined
  readonly #started: (status: number) => void
  #sent = 0

  /** @param started - is told the status when the headers go out */
  constructor(
    response: ServerResponse,
    connection: Connection,
    fault: Fault | undefined,
    started: (status: number) => void,
  ) {
    this.#response = response
    this.#connection = connection
    this.#fault = fault
    this.#started = started
  }

  /** Whether it makes sense to write on. */
  get open(): boolean {
    return !this.#response.writableEnded && !this.#response.destroyed
  }

  /** Called once, when the answer is complete or the client is gone. */
  onClose(callback: () => void): void {
    if (this.#response.closed) callback()
    else this.#response.once('close', callback)
  }

  start(status: number, headers: Readonly<Record<string, string>> = {}): void {
    if (this.#connection.frozen || !this.open) return
    this.#started(status)
    this.#response.writeHead(status, { 'content-type': 'application/json', ...headers })
    this.#response.flushHeaders()
  }

  /** Resolves when there is room for more. */
  async write(text: string): Promise<void> {
    const fault = this.#fault
    if (fault?.kind === 'silence') return
    if (fault?.kind === 'slow') return this.#trickle(text, fault.bytesPerSecond)
    if (fault?.kind !== 'cut' && fault?.kind !== 'truncate') return this.#send(text)
    const left = fault.afterBytes - this.#sent
    if (text.length < left) return this.#send(text)
    await this.#send(text.slice(0, left))
    if (fault.kind === 'cut') this.cut(fault.how)
    else this.#response.end()
  }

  end(): void {
    if (!this.#connection.frozen && this.#fault?.kind !== 'silence') this.#response.end()
  }

  /** Ends the connection with the answer incomplete. */
  cut(how: 'fin' | 'rst'): void {
    if (!this.#connection.frozen) this.#connection.cut(how)
  }

  freeze(): void {
    this.#connection.freeze()
  }

  async #trickle(text: string, bytesPerSecond: number): Promise<void> {
    const size = Math.ceil((bytesPerSecond * trickleEveryMs) / 1000)
    for (let at = 0; at < text.length && this.open; at += size) {
      await this.#send(text.slice(at, at + size))
      await sleep(trickleEveryMs)
    }
  }

  async #send(text: string): Promise<void> {
    if (this.#connection.frozen || !this.open || text === '') return
    this.#sent += text.length
    if (!this.#response.write(text)) await this.#drained()
  }

  #drained(): Promise<void> {
    return new Promise(resolve => {
      const done = (): void => {
        this.#response.off('drain', done).off('close', done)
        resolve()
      }
      this.#response.on('drain', done).on('close', done)
    })
  }
}
