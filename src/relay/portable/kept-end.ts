import type { Socket } from 'node:net'
import type { Backend } from '../backend.ts'
import type { Cut } from '../cut.ts'
import type { FdBudget } from '../fd-budget.ts'

/** An endpoint that has ended in order before its first byte, or is silent; it may still be reading. */
export interface UnservedEnd {
  readonly socket: Socket
  readonly backend: Backend
  /** Bytes of the client that it has been sent. */
  readonly heard: number
}

/** The last such end of a connection, kept for its client while other endpoints are dialled. */
export class KeptEnd {
  readonly #fds: Pick<FdBudget, 'take' | 'release'>
  #end: UnservedEnd | undefined

  constructor(fds: Pick<FdBudget, 'take' | 'release'>) {
    this.#fds = fds
  }

  has(socket: Socket): boolean {
    return this.#end?.socket === socket
  }

  /** If its endpoint is to be cut: then it is not the client's to know any more. */
  cut(endpoints: Pick<Cut, 'has'>): void {
    if (this.#end !== undefined && endpoints.has(this.#end.backend.key)) this.forget()
  }

  /** In place of the one before. Costs a descriptor more; without one to spare it is closed. */
  keep(end: UnservedEnd): void {
    this.forget()
    if (this.#fds.take(1)) this.#end = end
    else end.socket.destroy()
  }

  take(): UnservedEnd | undefined {
    const end = this.#end
    if (end !== undefined) this.#fds.release(1)
    this.#end = undefined
    return end
  }

  forget(): void {
    this.take()?.socket.destroy()
  }
}
