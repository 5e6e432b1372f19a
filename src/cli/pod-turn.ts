import { existsSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Log } from '../observe/log.ts'
import { systemClock, within } from '../util/clock.ts'
import { answersAt } from '../util/placed-socket.ts'
import { messageOf } from '../util/usher-error.ts'
import { restartCode, type Stop } from './stop.ts'

/** Milliseconds between two looks at the control socket. */
const lookMs = 1000
/** So long there is no answer before the other Usher counts as gone: one that has just taken over is about to listen. */
const goneMs = 5000

/**
 * Whose turn it is among the pods of one node, of which a new one takes over from the old one. The kubelet
 * starts a container again when it ends, and that one would take back what was just handed over. So
 * a pod takes over until it has served, and never after that: it serves again where no other does,
 * and else waits for its end. What a pod has been outlives its containers, in a directory of its own.
 */
export class PodTurn {
  readonly #socket: string
  readonly #log: Log
  /** There while this container serves: what a startup probe looks for. */
  readonly #serving: string
  /** There once any container of the pod has served. */
  readonly #served: string

  constructor(directory: string, socket: string, log: Log) {
    this.#socket = socket
    this.#log = log
    this.#serving = join(directory, 'serving')
    this.#served = join(directory, 'served')
  }

  /** Resolves when it is this pod's turn to start, or it is to end. */
  async come(stop: Stop): Promise<void> {
    // Of a container that has not ended in order.
    this.#remove()
    if (this.#socket === '' || !existsSync(this.#served)) return
    if (!(await answersAt(this.#socket))) return
    const advice =
      'it serves again when that one ends; delete it to have a new pod take over'
    this.#log.warn(
      { socket: this.#socket, advice },
      'another Usher serves in place of this pod, which waits',
    )
    await this.#gone(stop.requested)
  }

  serves(): void {
    try {
      for (const path of [this.#served, this.#serving]) writeFileSync(path, '')
    } catch (error) {
      // No reason to serve no more; the pod does not become ready, which says enough.
      this.#log.error({ why: messageOf(error) }, 'cannot write to --pod-dir')
    }
  }

  /** Another pod serves. */
  left(): void {
    this.#remove()
  }

  /** Waits, when all is closed, and gives the exit code: for a signal, or a restart when there is no other Usher any more. */
  async rest(stop: Stop): Promise<number> {
    this.#log.info({}, 'another pod serves in place of this one, which waits for its end')
    if (!(await this.#gone(stop.asked))) return 0
    this.#log.warn({}, 'the Usher that had taken over is gone; this pod starts again')
    return restartCode
  }

  /** Resolves with true when nothing has answered for a while, or with false at the end of `until`. */
  async #gone(until: Promise<unknown>): Promise<boolean> {
    const over = until.then(() => true)
    let answeredAt = performance.now()
    while (performance.now() - answeredAt < goneMs) {
      if (await answersAt(this.#socket)) answeredAt = performance.now()
      if (await within(systemClock, lookMs, over)) return false
    }
    return true
  }

  #remove(): void {
    try {
      rmSync(this.#serving, { force: true })
    } catch (error) {
      this.#log.error({ why: messageOf(error) }, 'cannot write to --pod-dir')
    }
  }
}
