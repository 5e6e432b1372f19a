import type { EventLoop, EventSource } from '../event-loop.ts'

/** What all listeners take of one turn, as to move a flow takes a socket. Milliseconds. */
const mostOfATurnMs = 20

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
  /** `performance` time at which the others have their turn; 0: nothing was moved in this one. */
  #until = 0
  #isQueued = false
  /** Called when nothing is left to be moved. */
  #settled: (() => void)[] = []

  constructor(loop: EventLoop) {
    this.#loop = loop
    loop.afterTurn(() => {
      this.#until = 0
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
    this.#checkSettled()
  }

  /** Calls back when all flows go by what is wanted now: at once, if they do. */
  whenSettled(callback: () => void): void {
    this.#settled.push(callback)
    this.#checkSettled()
  }

  ready(): void {
    this.#isQueued = false
    this.#run()
  }

  /** What may throw is caught flow by flow. */
  failed(): void {}

  #run(): void {
    this.#until ||= performance.now() + mostOfATurnMs
    for (const [listener, flows] of this.#waiting) {
      while (flows.length > 0 && performance.now() < this.#until) move(flows.pop())
      if (flows.length > 0) return this.#queue()
      this.#waiting.delete(listener)
    }
    this.#checkSettled()
  }

  #checkSettled(): void {
    if (this.#waiting.size > 0) return
    for (const callback of this.#settled.splice(0)) callback()
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
