import type { EventLoop, EventSource } from '../event-loop.ts'

/** Of all listeners, in one turn: about 20 ms, as to move a flow takes a socket. */
const mostInATurn = 2048

export interface MovableFlow {
  /** Goes by what its listener wants now. */
  reconsider(): void
  /** `reconsider` threw. */
  failed(error: unknown): void
}

/**
 * The flows of listeners that have changed, on their way to endpoints that there still
 * are. The first are moved at once and many in turns, between which others are served;
 * one that has a datagram meanwhile is moved before it is passed on.
 */
export class FlowMoves implements EventSource<undefined> {
  readonly #loop: EventLoop
  /** By listener. */
  readonly #waiting = new Map<object, MovableFlow[]>()
  #left = mostInATurn
  #isQueued = false

  constructor(loop: EventLoop) {
    this.#loop = loop
    loop.afterTurn(() => {
      this.#left = mostInATurn
    })
  }

  /** `flows`: all that `listener` has now; by its turn one may have ended. */
  begin(listener: object, flows: MovableFlow[]): void {
    this.#waiting.delete(listener)
    if (flows.length === 0) return
    this.#waiting.set(listener, flows)
    this.#run()
  }

  end(listener: object): void {
    this.#waiting.delete(listener)
  }

  ready(): void {
    this.#isQueued = false
    this.#run()
  }

  /** What may throw is caught flow by flow. */
  failed(): void {}

  #run(): void {
    for (const [listener, flows] of this.#waiting) {
      for (; this.#left > 0 && flows.length > 0; this.#left -= 1) move(flows.pop())
      if (flows.length > 0) return this.#queue()
      this.#waiting.delete(listener)
    }
  }

  #queue(): void {
    if (this.#isQueued) return
    this.#isQueued = true
    this.#loop.again(this, undefined)
  }
}

const move = (flow: MovableFlow | undefined): void => {
  try {
    flow?.reconsider()
  } catch (error) {
    flow?.failed(error)
  }
}
