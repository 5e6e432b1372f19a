import type { Clock } from '../../../util/clock.ts'
import { messageOf } from '../../../util/usher-error.ts'
import type { Channel, Message } from '../../hand-over/channel.ts'
import type { ListenerCounters } from '../../counters.ts'
import type { EndpointStats, HandedOver, Inheritance, TakenOver } from '../../relay.ts'
import type { GivenConnections, MovedConnection, Staying } from '../../hand-over/moved.ts'
import type { HandedSockets } from './open-sockets.ts'

/*
 * How a running Usher hands over to the next one on the same host. Until a message says otherwise the
 * old one serves, and whatever ends the other side leaves it as it was:
 *
 *   new: take           old: sockets      both have them; only the old one serves
 *   new: ready          old: yours        from here on the new one accepts
 *                       old: connections  some are out of the old one's loop ...
 *   new: kept           old: commit       ... and the new one's; else: abort, and they go on
 *                       old: over         what stays, and what was counted
 *
 * A message is acknowledged when it has been read. So of `yours` and `commit` both sides know the same:
 * one that was not read by a process that has ended was never acted on. A process that ends after it
 * has sent connections, and before it says what becomes of them, leaves them to the other side:
 * one that goes on says `abort` first.
 */

/** Both sides must have the same; goes up with every change that the other side would not understand. */
const format = 1

/** Milliseconds for the other side to answer, to apply all that it serves, and for dials to come to their end. */
const answerMs = 5000
const applyMs = 120_000
const settleMs = 1500
const againMs = 20

/**
 * Descriptors of connections that travel together, which stand still meanwhile: well below what one
 * message has (SCM_MAX_FD, 253, unix(7)), as the first thousand connections take code that has hardly run.
 */
const mostFdsAtOnce = 72

/** What was counted of one listener. */
export interface CountedListener {
  readonly listener: string
  readonly counters: ListenerCounters
  readonly endpoints: readonly Pick<EndpointStats, 'key' | 'failures' | 'retransmits'>[]
}

interface SentSockets extends Omit<HandedSockets, 'fds'> {
  /** How many. */
  readonly fds: number
}

/** From the new one. */
type Asked =
  | {
      readonly kind: 'take'
      readonly format: number
      readonly workers: number
      /** Descriptors that it may have. */
      readonly room: number
    }
  | { readonly kind: 'ready'; readonly listeners: readonly string[] }
  | { readonly kind: 'kept' }
  | { readonly kind: 'not-kept'; readonly reason: string }

/** From the old one. */
type Told =
  | { readonly kind: 'refused'; readonly reason: string }
  | { readonly kind: 'sockets'; readonly sockets: readonly SentSockets[] }
  | { readonly kind: 'yours'; readonly counted: readonly CountedListener[] }
  | { readonly kind: 'connections'; readonly connections: readonly MovedConnection[] }
  | { readonly kind: 'commit' }
  | { readonly kind: 'abort' }
  | {
      readonly kind: 'over'
      readonly staying: Staying
      readonly counted: readonly CountedListener[]
    }

/** The relay that hands over. */
export interface Giver {
  readonly workers: number
  sockets(): readonly HandedSockets[]
  counted(): readonly CountedListener[]
  /** The other process accepts from now on, and connections of these listeners may go. */
  stopServing(listeners: readonly string[]): Promise<void>
  /** Some that are to go, for each worker that has any; `settle` is to be called for each. */
  give(mostFds: number): AsyncIterable<Given>
  staying(): Promise<Staying>
}

export interface Given extends GivenConnections {
  settle(isTaken: boolean): Promise<void>
}

/** Hands everything to the process at the other end. Rejects when that ends before it has the sockets. */
export const handOver = async (
  channel: Channel,
  giver: Giver,
  clock: Clock,
): Promise<HandedOver> => {
  const { pid } = channel.peer
  const asked = await answerOf<Asked>(channel, 'take')
  const sockets = giver.sockets()
  const fds = sockets.flatMap(one => one.fds)
  const refused = whyNot(asked, giver.workers, fds.length)
  if (refused !== '') {
    await tell(channel, { kind: 'refused', reason: refused })
    return { pid, refused, connections: 0, staying: {} }
  }
  const sent = sockets.map(({ listener, protocol, bind, spread, fds: own }) => ({
    listener,
    protocol,
    bind,
    spread,
    fds: own.length,
  }))
  await tell(channel, { kind: 'sockets', sockets: sent }, fds)
  const { listeners } = await answerOf<Asked, 'ready'>(channel, 'ready', applyMs)
  await tell(channel, { kind: 'yours', counted: giver.counted() })
  await giver.stopServing(listeners)
  const { connections, stopped } = await giveConnections(channel, giver, clock)
  const staying =
    stopped === '' ? await giver.staying() : { [stopped]: await left(giver) }
  // Who it is for may have ended: then it has no figures to keep.
  await tell(channel, { kind: 'over', staying, counted: giver.counted() }).catch(() => {})
  return { pid, refused: '', connections, staying }
}

const left = async (giver: Giver): Promise<number> =>
  Object.values(await giver.staying()).reduce((sum, count) => sum + count, 0)

/** In turns, as long as some may still come to stand. `stopped`: why no more could be given. */
const giveConnections = async (
  channel: Channel,
  giver: Giver,
  clock: Clock,
): Promise<{ readonly connections: number; readonly stopped: string }> => {
  const until = clock.now() + settleMs
  let connections = 0
  for (;;) {
    let given = 0
    for await (const some of giver.give(mostFdsAtOnce)) {
      const refused = await giveSome(channel, some)
      if (refused !== '') return { connections, stopped: refused }
      given += some.connections.length
    }
    connections += given
    if (given > 0) continue
    if (clock.now() >= until || (await left(giver)) === 0)
      return { connections, stopped: '' }
    await new Promise<void>(resolve => clock.setTimeout(resolve, againMs))
  }
}

/** '' when the other process has them; else why they go on here. */
const giveSome = async (channel: Channel, given: Given): Promise<string> => {
  const { connections, fds } = given
  let isTaken = false
  let refused = ''
  try {
    await tell(channel, { kind: 'connections', connections }, fds)
    const answer = await answerOf<Asked>(channel)
    if (answer.kind === 'kept') {
      await tell(channel, { kind: 'commit' })
      isTaken = true
    } else refused = answer.kind === 'not-kept' ? answer.reason : 'an unknown answer'
  } catch (error) {
    refused = messageOf(error)
    // If it is still there it must know that they are not its own.
    await tell(channel, { kind: 'abort' }).catch(() => {})
  } finally {
    await given.settle(isTaken)
  }
  return refused
}

const whyNot = (asked: Asked, workers: number, sockets: number): string => {
  if (asked.kind !== 'take' || asked.format !== format)
    return 'it is of a version that hands over in another way'
  if (asked.workers < workers)
    return `it has ${asked.workers} workers, and this one has ${workers}: who waits in the other queues would be lost`
  if (asked.room < sockets)
    return `it may have ${asked.room} file descriptors, and the listening sockets alone are ${sockets}`
  return ''
}

/** The relay that takes over. */
export interface Taker {
  readonly workers: number
  /** Descriptors that are left. */
  readonly room: () => number
  /** They are to be served from `serve` on. */
  adoptSockets(sockets: readonly HandedSockets[]): void
  counted(counted: readonly CountedListener[]): void
  serve(): void
  /** Pays for `count` descriptors, or answers false. */
  takeRoom(count: number): boolean
  freeRoom(count: number): void
  /** Closes what is not to be kept. */
  close(fds: readonly number[]): void
  adopt(given: GivenConnections): Promise<number>
}

/** One take-over, from `begin` (before anything is listened on) to `finish` (when all is). */
export class TakeOver {
  readonly #channel: Channel
  readonly #taker: Taker
  readonly #clock: Clock

  /** What the other process listens on. */
  readonly sockets: Inheritance['sockets']

  private constructor(
    channel: Channel,
    taker: Taker,
    clock: Clock,
    sockets: Inheritance['sockets'],
  ) {
    this.sockets = sockets
    this.#channel = channel
    this.#taker = taker
    this.#clock = clock
  }

  /** Has the sockets of the other process; a text says why there are none to be had. */
  static async begin(
    channel: Channel,
    taker: Taker,
    clock: Clock,
  ): Promise<TakeOver | string> {
    const { workers } = taker
    await tell(channel, { kind: 'take', format, workers, room: taker.room() })
    const { value, fds } = await messageFrom(channel, answerMs)
    const told = value as Told
    if (told.kind === 'refused') return told.reason
    if (told.kind !== 'sockets') throw unexpected(told)
    let at = 0
    taker.adoptSockets(
      told.sockets.map(({ listener, protocol, bind, spread, fds: count }) => {
        at += count
        return { listener, protocol, bind, spread, fds: fds.slice(at - count, at) }
      }),
    )
    const sockets = told.sockets.map(({ listener, protocol, bind }) => ({
      listener,
      protocol,
      bind,
    }))
    return new TakeOver(channel, taker, clock, sockets)
  }

  /** Everything that is wanted is listened on, and served from here on. `listeners`: their ids. */
  async finish(listeners: readonly string[]): Promise<TakenOver> {
    const { pid } = this.#channel.peer
    const startedAt = this.#clock.now()
    let connections = 0
    let staying: Staying = {}
    let lost = ''
    try {
      await tell(this.#channel, { kind: 'ready', listeners })
      const told = await answerOf<Told>(this.#channel)
      if (told.kind !== 'yours') throw unexpected(told)
      this.#taker.counted(told.counted)
      this.#taker.serve()
      const result = await this.#takeConnections()
      connections = result.connections
      staying = result.staying
    } catch (error) {
      // It has ended, or will drain: what was not taken goes with it.
      lost = messageOf(error)
    } finally {
      this.#taker.serve()
      this.#channel.close()
    }
    const ms = this.#clock.now() - startedAt
    return { pid, ms, connections, staying, lost }
  }

  async #takeConnections(): Promise<{
    readonly connections: number
    readonly staying: Staying
  }> {
    let connections = 0
    for (;;) {
      const { value, fds } = await messageFrom(this.#channel, settleMs + answerMs)
      const told = value as Told
      if (told.kind === 'over') {
        this.#taker.counted(told.counted)
        return { connections, staying: told.staying }
      }
      if (told.kind !== 'connections') throw unexpected(told)
      connections += await this.#take({ connections: told.connections, fds })
    }
  }

  /** How many have become this process's. */
  async #take(given: GivenConnections): Promise<number> {
    const { fds } = given
    const { length } = fds
    if (!this.#taker.takeRoom(length)) {
      this.#taker.close(fds)
      const reason = 'the new process has too few file descriptors'
      await tell(this.#channel, { kind: 'not-kept', reason })
      return 0
    }
    let areOurs = false
    try {
      areOurs = await this.#areOurs()
    } finally {
      if (!areOurs) {
        this.#taker.close(fds)
        this.#taker.freeRoom(length)
      }
    }
    return areOurs ? this.#taker.adopt(given) : 0
  }

  async #areOurs(): Promise<boolean> {
    // One that has ended can't be told, and will not say that they are its own.
    await tell(this.#channel, { kind: 'kept' }).catch(() => {})
    const last = await this.#channel.receive(answerMs)
    if (last === undefined) return !this.#channel.wasLeft
    return (last.value as Told).kind === 'commit'
  }
}

const tell = (
  channel: Channel,
  value: Asked | Told,
  fds: readonly number[] = [],
): Promise<void> => channel.send(value, fds)

const messageFrom = async (channel: Channel, ms: number): Promise<Message> => {
  const message = await channel.receive(ms)
  if (message === undefined) throw new Error('the other process has ended')
  return message
}

const answerOf = async <M extends Asked | Told, K extends M['kind'] = M['kind']>(
  channel: Channel,
  kind?: K,
  ms = answerMs,
): Promise<Extract<M, { kind: K }>> => {
  const value = (await messageFrom(channel, ms)).value as M
  if (kind !== undefined && value.kind !== kind) throw unexpected(value)
  return value as Extract<M, { kind: K }>
}

const unexpected = ({ kind }: Asked | Told): Error =>
  new Error(`the other process says ${JSON.stringify(kind)} where something else was due`)
