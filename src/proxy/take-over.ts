import type { Log } from '../observe/log.ts'
import { type StatusDocument, tookOverText } from '../observe/status.ts'
import type { ChosenRelay } from '../relay/make-relay.ts'
import type { HandsOver, Inheritance, TakenOver } from '../relay/relay.ts'
import type { Clock } from '../util/clock.ts'
import { Deferred } from '../util/deferred.ts'
import { hasCode, messageOf, UsherError } from '../util/usher-error.ts'
import type { OperatorOrders } from '../mode/operator-orders.ts'
import type { Predecessor, Shared } from './options.ts'

/** Milliseconds for the one before to let go of its addresses, and between two looks. */
const goneMs = 10_000
const lookMs = 20

/** Of a `DataPath`. */
interface HeirPath {
  readonly relayChoice: Pick<ChosenRelay, 'name'>
  readonly relay: HandsOver
  readonly inherit: (from: Inheritance, capture: string) => void
}

/** Takes over in the course of the first sync: all that is wanted is known then, and listened on at once. */
export class TakeOverAtStart {
  readonly #predecessor: Predecessor
  readonly #log: Log
  readonly #clock: Clock
  readonly #orders: OperatorOrders
  readonly #refused = new Deferred<never>()
  #refusal: UsherError | undefined
  #isDone = false
  /** What was taken over, once that is done. */
  result: StatusDocument['tookOver'] = null

  constructor(
    predecessor: Predecessor,
    { log, clock, orders }: Pick<Shared, 'log' | 'clock' | 'orders'>,
  ) {
    this.#orders = orders
    this.#predecessor = predecessor
    this.#log = log
    this.#clock = clock
  }

  /**
   * Rejects when the one before does not hand over now, as to another that came first. To go on would be to
   * serve beside that one, and to take the host's turn from it.
   */
  get refused(): Promise<never> {
    return this.#refused.promise
  }

  /** Has `sync` listen with what the one before has open. `path`: undefined where there is no relay. */
  async during(path: HeirPath | undefined, sync: () => Promise<void>): Promise<void> {
    if (this.#refusal !== undefined) throw this.#refusal
    if (this.#isDone) return sync()
    this.#isDone = true
    const why = await this.#begin(path)
    if (this.#refusal !== undefined) throw this.#refusal
    try {
      await sync()
    } finally {
      this.#ended(why === '' ? await path?.relay.finishTakeOver() : undefined, why)
    }
  }

  /** Resolves when the one before has let go of its addresses, or does not in time. */
  async gone(): Promise<void> {
    const until = this.#clock.now() + goneMs
    while (this.#clock.now() < until && (await this.#predecessor.answers()))
      await new Promise<void>(resolve => this.#clock.setTimeout(resolve, lookMs))
  }

  /** '', or why there is nothing to be had. */
  async #begin(path: HeirPath | undefined): Promise<string> {
    try {
      // Nothing comes to the portable one: then the one before is to let go of its addresses at once.
      const hasRelay = path !== undefined && path.relayChoice.name !== 'portable'
      const answer = await this.#predecessor.ask(hasRelay)
      const { name, token, refused, capture, orders } = answer
      this.#orders.takeOver(orders)
      if (refused !== '') return refused
      if (path === undefined || name === '') return 'there is no relay on both sides'
      const inheritance = await path.relay
        .takeOver({ name, token, refused })
        .catch(async (error: unknown) => {
          // It serves on, then, and would keep what is to be listened on here; one that has ended does not.
          await this.#predecessor.ask(false).catch(() => {})
          throw error
        })
      if (inheritance.refused === '') path.inherit(inheritance, capture)
      return inheritance.refused
    } catch (error) {
      if (hasCode(error, 'ORDER_REFUSED')) this.#refuse(error)
      return messageOf(error)
    }
  }

  #refuse(cause: Error): void {
    const { pid, version } = this.#predecessor
    const text = `the Usher that serves here (PID ${pid}, ${version}) can't be taken over from now: ${cause.message}`
    this.#refusal = new UsherError('CANNOT_LISTEN', text, { cause })
    this.#refused.reject(this.#refusal)
  }

  #ended(taken: TakenOver | undefined, why: string): void {
    const { pid, version } = this.#predecessor
    if (taken === undefined) {
      const advice =
        'its connections are drained by it; addresses are tried until they are free'
      this.#log.warn(
        { pid, version, why, advice },
        'nothing was taken over from the running Usher',
      )
      return
    }
    const { connections, lost } = taken
    this.result = {
      pid,
      version,
      at: new Date().toISOString(),
      ms: Math.round(taken.ms),
      connections,
      staying: stayingList(taken.staying),
      lost,
    }
    this.#log[lost === '' ? 'info' : 'warn'](
      { ...this.result },
      tookOverText(this.result),
    )
  }
}

const stayingList = (staying: TakenOver['staying']) =>
  Object.entries(staying).map(([why, connections]) => ({ why, connections }))
