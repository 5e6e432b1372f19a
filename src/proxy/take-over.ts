import type { Log } from '../observe/log.ts'
import { type StatusDocument, tookOverText } from '../observe/status.ts'
import type { ChosenRelay } from '../relay/make-relay.ts'
import type { HandsOver, TakenOver } from '../relay/relay.ts'
import type { Source } from '../source/source.ts'
import type { Clock } from '../util/clock.ts'
import { Deferred } from '../util/deferred.ts'
import { errorOf, hasCode, messageOf, UsherError } from '../util/usher-error.ts'
import type { OperatorOrders } from '../mode/operator-orders.ts'
import type { DataPath } from './data-path.ts'
import type { Predecessor, Shared } from './options.ts'
import type { OrphanRecord } from './orphan-file.ts'

/** Milliseconds for the one before to let go of its addresses, and between two looks. */
const goneMs = 10_000
const lookMs = 20
/** For the first checks of routes to have an answer. */
const checksMs = 10_000

/** It has no more to hand over than its turn to write rules: connections go on without it. */
const withoutRelay = 'it carries no connections itself'

/** Of a `DataPath`. */
interface HeirPath {
  readonly relayChoice: Pick<ChosenRelay, 'name'>
  readonly relay: HandsOver
  readonly inherit: DataPath['inherit']
  readonly orphan: OrphanRecord | undefined
  readonly serves: () => Promise<void>
}

/** Of `Traffic`. */
interface Heir {
  readonly dataPath: () => HeirPath | undefined
  /** As it is to be before the first sync; undefined where there is no relay. */
  readonly openDataPath: () => Promise<HeirPath | undefined>
}

/**
 * Takes over from the Usher that runs, or from the data plane of one that has crashed, in the course of the
 * first sync: all that is wanted is known then, and listened on at once.
 */
export class TakeOverAtStart {
  /** Undefined: none answers at the control socket. */
  readonly #predecessor: Predecessor | undefined
  readonly #log: Log
  readonly #clock: Clock
  readonly #orders: OperatorOrders
  readonly #refused = new Deferred<never>()
  #refusal: UsherError | undefined
  #isDone = false
  /** What can be found should this process crash. */
  #serving: HeirPath | undefined
  #isUnfinished = false
  /** What was taken over, once that is done. */
  result: StatusDocument['tookOver'] = null

  constructor(
    predecessor: Predecessor | undefined,
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

  /** Has the first `sync` listen with what the one before has open. */
  async during(heir: Heir, sync: () => Promise<void>): Promise<void> {
    if (this.#refusal !== undefined) throw this.#refusal
    if (this.#isDone) await sync()
    else {
      const path = await this.#open(heir)
      this.#isDone = true
      await this.#takeOver(path, sync)
    }
    // A later one, too: of a mode that was fallen back to, or of the first Service that asks for a relay.
    const path = heir.dataPath()
    if (path === this.#serving) return
    this.#serving = path
    await path?.serves()
  }

  /** Where one is awaited that does not start the one before serves on, unasked. */
  async #open(heir: Heir): Promise<HeirPath | undefined> {
    try {
      return await heir.openDataPath()
    } catch (error) {
      if (this.#predecessor !== undefined) throw error
      // The sync tries again, and says why.
      this.#log.debug({ why: messageOf(error) }, 'the relay has not started yet')
      return heir.dataPath()
    }
  }

  async #takeOver(path: HeirPath | undefined, sync: () => Promise<void>): Promise<void> {
    const from = this.#predecessor ?? path?.orphan
    if (from === undefined) return sync()
    const why = 'ask' in from ? await this.#begin(from, path) : await adopt(from, path)
    if (this.#refusal !== undefined) throw this.#refusal
    this.#isUnfinished = why === ''
    let taken: TakenOver | undefined
    try {
      await sync()
    } catch (error) {
      // What serves is not given up for what does not: this one ends, and the one before goes on.
      if ('ask' in from && why === '') this.#refuse(from, errorOf(error))
      throw this.#refusal ?? error
    } finally {
      if (why === '' && this.#refusal === undefined)
        taken = await path?.relay.finishTakeOver()
    }
    this.#isUnfinished = false
    if (taken !== undefined) this.#took(taken)
    else if ('ask' in from) this.#tookNothing(from, why)
    else this.#log.debug({ why }, 'no data plane of an earlier Usher is left')
    // It may serve on if it has not heard of it; both would, then.
    if (taken !== undefined && taken.lost !== '' && 'ask' in from)
      await from.ask(false).catch(() => {})
  }

  /** What is on this host is the other one's yet, though this one may have begun to change it. */
  get isUnfinished(): boolean {
    return this.#isUnfinished
  }

  /** Whether one that answers lets go of its addresses for this one. */
  get isAwaited(): boolean {
    return this.#predecessor !== undefined
  }

  /**
   * To be called before the first sync: another that serves knows which endpoints are up, and its clients are
   * not to be refused for as long as the first checks take here.
   */
  async known(source: Pick<Source, 'awaitsChecks'>): Promise<void> {
    const until = this.#clock.now() + checksMs
    while (this.#clock.now() < until && source.awaitsChecks?.() === true)
      await this.#pause()
  }

  /** Resolves when the one before has let go of its addresses, or does not in time. */
  async gone(): Promise<void> {
    const until = this.#clock.now() + goneMs
    while (this.#clock.now() < until && (await this.#predecessor?.answers()) === true)
      await this.#pause()
  }

  #pause(): Promise<void> {
    return new Promise(resolve => void this.#clock.setTimeout(resolve, lookMs))
  }

  /** '', or why there is nothing to be had. */
  async #begin(from: Predecessor, path: HeirPath | undefined): Promise<string> {
    try {
      // Nothing comes to the portable one: then the one before is to let go of its addresses at once.
      const hasRelay = path !== undefined && path.relayChoice.name !== 'portable'
      const answer = await from.ask(hasRelay)
      const { name, token, refused, capture, proxyPorts, orders } = answer
      this.#orders.takeOver(orders)
      if (refused !== '') return refused
      if (path === undefined || name === '') return withoutRelay
      const inheritance = await path.relay
        .takeOver({ name, token, refused })
        .catch(async (error: unknown) => {
          // It serves on, then, and would keep what is to be listened on here; one that has ended does not.
          await from.ask(false).catch(() => {})
          throw error
        })
      if (inheritance.refused === '') path.inherit(inheritance, capture, proxyPorts)
      return inheritance.refused
    } catch (error) {
      // It is there, and goes on.
      const isThere =
        hasCode(error, 'ORDER_REFUSED') ||
        (hasCode(error, 'NO_ANSWER') && (await from.answers()))
      if (isThere) this.#refuse(from, errorOf(error))
      return messageOf(error)
    }
  }

  #refuse({ pid, version }: Predecessor, cause: Error): void {
    const text = `the Usher that serves here (PID ${pid}, ${version}) can't be taken over from now: ${cause.message}`
    this.#refusal = new UsherError('CANNOT_LISTEN', text, { cause })
    this.#refused.reject(this.#refusal)
  }

  #tookNothing({ pid, version }: Predecessor, why: string): void {
    if (why === withoutRelay)
      return this.#log.info({ pid, version, why }, 'took the place of the running Usher')
    const advice =
      'its connections are drained by it; addresses are tried until they are free'
    this.#log.warn(
      { pid, version, why, advice },
      'nothing was taken over from the running Usher',
    )
  }

  #took(taken: TakenOver): void {
    const { connections, lost } = taken
    const { pid, version } = this.#predecessor ?? { pid: taken.pid, version: '' }
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

/** '', or why there is nothing to be had. */
const adopt = async (
  { capture, ...place }: OrphanRecord,
  path: HeirPath | undefined,
): Promise<string> => {
  try {
    const inheritance = await path?.relay.takeOver({ ...place, refused: '' })
    if (inheritance?.refused === '') path?.inherit(inheritance, capture)
    return inheritance?.refused ?? ''
  } catch (error) {
    return messageOf(error)
  }
}

const stayingList = (staying: TakenOver['staying']) =>
  Object.entries(staying).map(([why, connections]) => ({ why, connections }))
