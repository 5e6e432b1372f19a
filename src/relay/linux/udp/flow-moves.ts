import type { EventLoop, EventSource } from '../event-loop.ts'

/** Of all listeners, in one turn: about 20 ms, as to move a flow takes a socket. */
const mostInATurn = 2048

/** Who is to look at its flows again. */
export interface Mover<Flow> {
  reconsider(flow: Flow): void
  fault(error: unknown): void
}

/**
 * The flows of listeners that have changed, on their way to endpoints that there still
 * are. The first are moved at once and many in turns, between which others are served;
 * one that has a datagram meanwhile is moved before it is passed on.
 */
export class FlowMoves<Flow> implements EventSource<undefined> {
  readonly #loop: EventLoop
  readonly #waiting = new Map<Mover<Flow>, Flow[]>()
  #left = mostInATurn
  #isAsked = false

  constructor(loop: EventLoop) {
    this.#loop = loop
    loop.afterTurn(() => {
      this.#left = mostInATurn
    })
  }

  /** `flows`: all that `mover` has now; they are not looked at if they have ended by then. */
  begin(mover: Mover<Flow>, flows: Flow[]): void {
    this.#waiting.delete(mover)
    if (flows.length === 0) return
    this.#waiting.set(mover, flows)
    this.#run()
  }

  end(mover: Mover<Flow>): void {
    this.#waiting.delete(mover)
  }

  ready(): void {
    this.#isAsked = false
    this.#run()
  }

  /** What may throw is caught flow by flow. */
  failed(): void {}

  #run(): void {
    for (const [mover, flows] of this.#waiting) {
      for (; this.#left > 0 && flows.length > 0; this.#left -= 1) {
        const flow = flows.pop()
        if (flow !== undefined) move(mover, flow)
      }
      if (flows.length > 0) return this.#askAgain()
      this.#waiting.delete(mover)
    }
  }

  #askAgain(): void {
    if (this.#isAsked) return
    this.#isAsked = true
    this.#loop.again(this, undefined)
  }
}

const move = <Flow>(mover: Mover<Flow>, flow: Flow): void => {
  try {
    mover.reconsider(flow)
  } catch (error) {
    mover.fault(error)
  }
}
