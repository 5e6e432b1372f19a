import type { Clock } from '../../../util/clock.ts'
import { messageOf } from '../../../util/usher-error.ts'
import type { Channel, Message } from '../../hand-over/channel.ts'
import type { ListenerCounters } from '../../counters.ts'
import type { EndpointStats, HandedOver, Inheritance, TakenOver } from '../../relay.ts'
import type {
  BatchLimits,
  GivenConnections,
  MovedAffinity,
  MovedConnection,
  MovedFlows,
  Staying,
} from '../../hand-over/moved.ts'
import { faultOf, fdsOfConnections } from '../../hand-over/well-formed.ts'
import type { HandedSockets } from './open-sockets.ts'

/*
 * How a running Usher hands over to the next one on the same host. Until a message says otherwise the
 * old one serves, and whatever ends the other side leaves it as it was:
 *
 *   new: take           old: sockets      both have them; only the old one serves
 *   new: ready          old: affinity     whom it leads where
 *                       old: yours        from here on the old one accepts no TCP connection
 *                       old: affinity     what has changed meanwhile
 *                       old: stopped      from here on the new one accepts
 *                       old: connections  some are out of the old one's loop ...
 *   new: kept           old: commit       ... and the new one's; else: abort, and they go on
 *   new: adopted        the next of them
 *                       old: flows        the same, for all flows of a listener of UDP and its addresses:
 *                       old: affinity     some at a time, then its affinity,
 *                       old: flows-given  and that these were all
 *   new: kept           old: commit
 *                       old: over         what stays, and what was counted
 *
 * Two processes that read one UDP socket would each begin a flow for a client. So the old one serves it until
 * its flows are the new one's, and the new one does not before that. Nothing waits for anything else: of TCP the
 * new one accepts all the while, and a connection or flow rests for as long as its own batch is on its way. UDP comes
 * last: it can wait, as it is served; descriptors that are scarce are for connections first, which can't begin
 * again by themselves; and the old one's workers, busy with thousands of flows, keep no connection waiting then.
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
/** What is due of affinity is told by each side's own clock, which may be so late. */
const lateMs = 1000

/**
 * Connections that travel together stand still meanwhile, and who is in use is to notice nothing: few of them.
 * First come the quiet ones, as many as one message takes (SCM_MAX_FD, 253, unix(7)); few at the start, as the
 * first thousand take code that has hardly run.
 */
const usual: BatchLimits = { mostFds: 72, quietMs: 0 }
const quiet: BatchLimits = { mostFds: 240, quietMs: 1000 }
const firstFds = 24

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
  | {
      readonly kind: 'ready'
      readonly listeners: readonly string[]
      /** Of UDP: keys of the binds whose flows it takes. */
      readonly binds: readonly string[]
      /** Descriptors that it may have beside what it listens on. */
      readonly room: number
    }
  | { readonly kind: 'kept' }
  | { readonly kind: 'adopted' }
  | { readonly kind: 'not-kept'; readonly reason: string }

type Take = Extract<Asked, { kind: 'take' }>

/** From the old one. */
type Told =
  | { readonly kind: 'refused'; readonly reason: string }
  | { readonly kind: 'sockets'; readonly sockets: readonly SentSockets[] }
  | { readonly kind: 'affinity'; readonly affinity: readonly MovedAffinity[] }
  | { readonly kind: 'yours'; readonly counted: readonly CountedListener[] }
  | { readonly kind: 'stopped' }
  | { readonly kind: 'connections'; readonly connections: readonly MovedConnection[] }
  | ({ readonly kind: 'flows' } & MovedFlows)
  | { readonly kind: 'flows-given'; readonly binds: readonly string[] }
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
  /** Whom affinity leads where, as far as it was used within `ms`. */
  affinity(ms: number): AsyncIterable<readonly MovedAffinity[]>
  /** The other process accepts from now on, and connections of these listeners may go. */
  stopServing(listeners: readonly string[]): Promise<void>
  /** Some connections that are to go, for each worker that has any; `settle` is to be called for each. */
  give(batch: BatchLimits): AsyncIterable<Given>
  /** Why connections stay. */
  staying(): Promise<Staying>
  /** All flows of some listeners at `binds`, and so on; `affinityMs`: how old changes of affinity are to be told. */
  giveFlows(binds: ReadonlySet<string>, affinityMs: () => number): AsyncIterable<Given>
  /** UDP flows that are here. */
  readonly flows: number
}

/** Part of what goes to the other process as one. */
export interface Part {
  readonly told: Extract<
    Told,
    { kind: 'connections' | 'flows' | 'affinity' | 'flows-given' }
  >
  readonly fds: readonly number[]
}

export interface Given {
  /** Of flows: how many there are. */
  readonly size?: number
  readonly parts: Iterable<Part> | AsyncIterable<Part>
  settle(isTaken: boolean): Promise<void>
}

/** Hands everything to the process at the other end. Rejects when that ends before it has the sockets. */
export const handOver = async (
  channel: Channel,
  giver: Giver,
  clock: Clock,
): Promise<HandedOver> => {
  const { pid } = channel.peer
  const asked = await answerOf<Asked, 'take'>(channel, 'take')
  const sockets = giver.sockets()
  const fds = sockets.flatMap(one => one.fds)
  const refused = whyNot(asked, giver.workers, fds.length)
  if (refused !== '') {
    await tell(channel, { kind: 'refused', reason: refused })
    return { pid, refused, connections: 0, flows: 0, staying: {} }
  }
  const sent = sockets.map(({ listener, protocol, bind, spread, fds: own }) => ({
    listener,
    protocol,
    bind,
    spread,
    fds: own.length,
  }))
  await tell(channel, { kind: 'sockets', sockets: sent }, fds)
  const ready = await answerOf<Asked, 'ready'>(channel, 'ready', applyMs)
  const since = clock.now()
  const affinityMs = (): number => clock.now() - since + lateMs
  await tellAffinity(channel, giver, Infinity)
  await tell(channel, { kind: 'yours', counted: giver.counted() })
  await giver.stopServing(ready.listeners)
  try {
    await tellAffinity(channel, giver, affinityMs())
    await tell(channel, { kind: 'stopped' })
  } catch {
    // It may have ended: what is to be given finds that, too, and says so.
  }
  const { connections, stopped, fds: gone } = await giveConnections(channel, giver, clock)
  const room = ready.room - gone
  const udp = giver.giveFlows(new Set(ready.binds), affinityMs)
  const { flows, staying: stayingFlows } = await giveFlows(channel, giver, udp, room)
  const why = stopped === '' ? await giver.staying() : { [stopped]: await left(giver) }
  const staying = { ...why, ...stayingFlows }
  // Who it is for may have ended: then it has no figures to keep.
  await tell(channel, { kind: 'over', staying, counted: giver.counted() }).catch(() => {})
  return { pid, refused: '', connections, flows, staying }
}

const tellAffinity = async (
  channel: Channel,
  giver: Giver,
  ms: number,
): Promise<void> => {
  for await (const affinity of giver.affinity(ms))
    await tell(channel, { kind: 'affinity', affinity })
}

const left = async (giver: Giver): Promise<number> =>
  Object.values(await giver.staying()).reduce((sum, count) => sum + count, 0)

/** In turns, as long as some may still come to stand. `stopped`: why no more could be given. */
const giveConnections = async (
  channel: Channel,
  giver: Giver,
  clock: Clock,
): Promise<{
  readonly connections: number
  readonly fds: number
  readonly stopped: string
}> => {
  const until = clock.now() + settleMs
  let [connections, fds] = [0, 0]
  let batch: BatchLimits = { ...quiet, mostFds: firstFds }
  for (;;) {
    let given = 0
    for await (const some of giver.give(batch)) {
      const { count, refused, fds: own } = await giveSome(channel, some)
      if (refused !== '')
        return { connections: connections + given, fds, stopped: refused }
      given += count
      fds += own
    }
    connections += given
    const isQuiet = batch.quietMs > 0
    batch =
      isQuiet && given > 0
        ? { ...quiet, mostFds: Math.min(2 * batch.mostFds, quiet.mostFds) }
        : usual
    if (given > 0 || isQuiet) continue
    if (clock.now() >= until || (await left(giver)) === 0)
      return { connections, fds, stopped: '' }
    await new Promise<void>(resolve => clock.setTimeout(resolve, againMs))
  }
}

/** Why flows stay, whose number is told. */
const flowsStay = (why: string): string => `UDP flows: ${why}`
const notServed = 'not served by the new process'
const tooFew = 'the new process has too few file descriptors'

/** Listener by listener. One that the other process does not take is served here on. */
const giveFlows = async (
  channel: Channel,
  giver: Giver,
  all: AsyncIterable<Given>,
  mostFds: number,
): Promise<{ readonly flows: number; readonly staying: Staying }> => {
  const staying: Record<string, number> = {}
  let [flows, refusedFlows, ended] = [0, 0, '']
  for await (const some of all) {
    const { size = 0 } = some
    // What does not fit is lost on its way, and the channel with it: it is not sent.
    const fits = flows + size <= mostFds
    const { count, refused, isOver } = fits
      ? await giveSome(channel, some)
      : { count: size, refused: tooFew, isOver: false }
    if (isOver) {
      ended = refused
      break
    }
    if (refused === '') flows += count
    else {
      const why = flowsStay(refused)
      staying[why] = (staying[why] ?? 0) + count
      refusedFlows += count
    }
  }
  const others = giver.flows - refusedFlows
  if (others > 0) staying[flowsStay(ended || notServed)] = others
  return { flows, staying }
}

interface GivingResult {
  /** Connections or flows. */
  readonly count: number
  readonly fds: number
  /** '' when the other process has them; else why they go on here. */
  readonly refused: string
  /** The other process does not answer any more. */
  readonly isOver: boolean
}

const giveSome = async (channel: Channel, given: Given): Promise<GivingResult> => {
  let [count, fds, refused, isTaken, isOver] = [0, 0, '', false, false]
  try {
    for await (const { told, fds: own } of given.parts) {
      await tell(channel, told, own)
      fds += own.length
      if (told.kind === 'connections') count += told.connections.length
      else if (told.kind === 'flows') count += told.flows.length
    }
    const answer = await answerOf<Asked>(channel)
    if (answer.kind === 'kept') {
      await tell(channel, { kind: 'commit' })
      isTaken = true
    } else if (answer.kind === 'not-kept') refused = answer.reason
    else throw unexpected(answer)
  } catch (error) {
    refused = messageOf(error)
    isOver = true
    // If it is still there it must know that they are not its own.
    await tell(channel, { kind: 'abort' }).catch(() => {})
  } finally {
    await given.settle(isTaken)
  }
  // What came next would stand still for as long as the other process takes in this. If it has ended, that finds out.
  if (isTaken) await answerOf<Asked>(channel, 'adopted').catch(() => {})
  return { count, fds, refused, isOver }
}

const whyNot = (asked: Take, workers: number, sockets: number): string => {
  if (asked.format !== format) return 'it is of a version that hands over in another way'
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
  /** They are to be served from `serve` on; those of UDP from `adoptFlows` on. */
  adoptSockets(sockets: readonly HandedSockets[]): void
  counted(counted: readonly CountedListener[]): void
  adoptAffinity(affinity: readonly MovedAffinity[]): void
  serve(): void
  /** Keys of the binds of UDP that are served once their flows have come. */
  awaitingFlows(): readonly string[]
  /** Pays for `count` descriptors, or answers false. */
  takeRoom(count: number): boolean
  freeRoom(count: number): void
  /** Closes what is not to be kept. */
  close(fds: readonly number[]): void
  adopt(given: GivenConnections): Promise<number>
  /** All at these binds, which are served here from now on; how many. */
  adoptFlows(binds: readonly string[], flows: readonly GivenPart[]): Promise<number>
  /** What still awaits flows gets none. */
  abandonFlows(hasEnded: boolean): void
}

/** Flows that have come, and their descriptors. */
export interface GivenPart extends MovedFlows {
  readonly fds: readonly number[]
}

/** One take-over, from `begin` (before anything is listened on) to `finish` (when all is). */
export class TakeOver {
  readonly #channel: Channel
  readonly #taker: Taker
  readonly #clock: Clock
  readonly #taken = { connections: 0, flows: 0 }
  /** Ids of those that are served here. */
  #listeners: ReadonlySet<string> = new Set()

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
    const message = await messageFrom(channel, answerMs)
    const { fds } = message
    const told = message.value as Told
    if (told.kind !== 'sockets') channel.drop(message)
    if (told.kind === 'refused') return told.reason
    if (told.kind !== 'sockets') throw unexpected(told)
    const said = told.sockets.reduce((sum, one) => sum + one.fds, 0)
    if (said !== fds.length) {
      channel.drop(message)
      throw miscounted(fds.length, said)
    }
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
    const taker = this.#taker
    const startedAt = this.#clock.now()
    let staying: Staying = {}
    let [lost, hasEnded] = ['', false]
    this.#listeners = new Set(listeners)
    try {
      const binds = taker.awaitingFlows()
      const room = taker.room()
      await tell(this.#channel, { kind: 'ready', listeners, binds, room })
      await this.#untilStopped()
      taker.serve()
      staying = await this.#takeAll()
    } catch (error) {
      // It has ended, or will drain: what was not taken goes with it.
      lost = messageOf(error)
      hasEnded = error instanceof OtherEnded
    } finally {
      taker.serve()
      taker.abandonFlows(hasEnded)
      this.#channel.close()
    }
    const { pid } = this.#channel.peer
    const ms = this.#clock.now() - startedAt
    return { pid, ms, ...this.#taken, staying, lost }
  }

  async #untilStopped(): Promise<void> {
    for (;;) {
      const told = await answerOf<Told>(this.#channel)
      if (told.kind === 'stopped') return
      if (told.kind === 'yours') this.#taker.counted(told.counted)
      else if (told.kind === 'affinity') this.#taker.adoptAffinity(told.affinity)
      else throw unexpected(told)
    }
  }

  async #takeAll(): Promise<Staying> {
    for (;;) {
      const message = await messageFrom(this.#channel, settleMs + answerMs)
      const told = message.value as Told
      if (told.kind !== 'connections' && told.kind !== 'flows')
        this.#channel.drop(message)
      if (told.kind === 'over') {
        this.#taker.counted(told.counted)
        return told.staying
      }
      // What it was to give could not be sent.
      if (told.kind === 'abort') continue
      await this.#take(message)
    }
  }

  /** What goes as one: it is this process's as a whole, or not at all. */
  async #take(first: Message): Promise<void> {
    const batch = new Batch(this.#taker, this.#listeners)
    try {
      for (let message = first; batch.take(message);)
        message = await messageFrom(this.#channel, answerMs)
      if (batch.isAborted) return
      if (batch.refused !== '') {
        await tell(this.#channel, { kind: 'not-kept', reason: batch.refused })
        return
      }
      batch.areOurs = await this.#areOurs()
    } finally {
      if (!batch.areOurs) batch.drop()
    }
    if (!batch.areOurs) return
    const { connections, flows } = await batch.adopt()
    await tell(this.#channel, { kind: 'adopted' }).catch(() => {})
    this.#taken.connections += connections
    this.#taken.flows += flows
  }

  async #areOurs(): Promise<boolean> {
    // One that has ended can't be told, and will not say that they are its own.
    await tell(this.#channel, { kind: 'kept' }).catch(() => {})
    const last = await this.#channel.receive(answerMs)
    if (last === undefined) return !this.#channel.wasLeft
    return (last.value as Told).kind === 'commit'
  }
}

/** What has come and is not this process's yet. */
class Batch {
  readonly #taker: Taker
  readonly #listeners: ReadonlySet<string>
  readonly #connections: GivenConnections[] = []
  readonly #flows: GivenPart[] = []
  #binds: readonly string[] = []
  /** Those that are paid for. */
  readonly #fds: number[] = []
  /** Why it can't be had. */
  refused = ''
  isAborted = false
  areOurs = false

  /** `listeners`: ids of those that are served here. */
  constructor(taker: Taker, listeners: ReadonlySet<string>) {
    this.#taker = taker
    this.#listeners = listeners
  }

  /** Whether there is more to come. */
  take({ value, fds }: Message): boolean {
    const told = value as Told
    if (told.kind === 'connections') {
      const { connections } = told
      this.#check(fdsOfConnections(connections), fds)
      if (connections.some(({ listener }) => !this.#listeners.has(listener)))
        this.refused ||= notServed
      if (this.#pay(fds)) this.#connections.push({ ...told, fds })
      return false
    }
    if (told.kind === 'flows') {
      this.#check(told.flows.length, fds)
      if (this.#pay(fds)) this.#flows.push({ ...told, fds })
      return true
    }
    if (told.kind === 'affinity') {
      this.#taker.adoptAffinity(told.affinity)
      return true
    }
    if (told.kind === 'flows-given') {
      this.#binds = told.binds
      const awaiting = new Set(this.#taker.awaitingFlows())
      if (!told.binds.every(bind => awaiting.has(bind))) this.refused ||= notServed
      return false
    }
    if (told.kind !== 'abort') throw unexpected(told)
    this.isAborted = true
    return false
  }

  /** It is not to be kept. */
  drop(): void {
    this.#taker.close(this.#fds)
    this.#taker.freeRoom(this.#fds.length)
  }

  async adopt(): Promise<{ readonly connections: number; readonly flows: number }> {
    let connections = 0
    for (const some of this.#connections) connections += await this.#taker.adopt(some)
    const flows = await this.#taker.adoptFlows(this.#binds, this.#flows)
    return { connections, flows }
  }

  #check(said: number, { length }: readonly number[]): void {
    if (said !== length) this.refused ||= miscounted(length, said).message
  }

  #pay(fds: readonly number[]): boolean {
    if (this.refused === '' && !this.#taker.takeRoom(fds.length)) this.refused = tooFew
    if (this.refused === '') this.#fds.push(...fds)
    else this.#taker.close(fds)
    return this.refused === ''
  }
}

/** It is no more, and has not said that it would go on. */
class OtherEnded extends Error {}

const tell = (
  channel: Channel,
  value: Asked | Told,
  fds: readonly number[] = [],
): Promise<void> => channel.send(value, fds)

const messageFrom = async (channel: Channel, ms: number): Promise<Message> => {
  const message = await channel.receive(ms)
  if (message === undefined) {
    if (channel.wasLeft) throw new Error('the other process has left')
    throw new OtherEnded('the other process has ended')
  }
  const fault = faultOf(message.value)
  if (fault === '') return message
  channel.drop(message)
  throw new Error(fault)
}

const answerOf = async <M extends Asked | Told, K extends M['kind'] = M['kind']>(
  channel: Channel,
  kind?: K,
  ms = answerMs,
): Promise<Extract<M, { kind: K }>> => {
  const message = await messageFrom(channel, ms)
  // None of these brings any.
  channel.drop(message)
  const value = message.value as M
  if (kind !== undefined && value.kind !== kind) throw unexpected(value)
  return value as Extract<M, { kind: K }>
}

const miscounted = (come: number, said: number): Error =>
  new Error(`${come} descriptors came where the other process speaks of ${said}`)

const unexpected = ({ kind }: Asked | Told): Error =>
  new Error(`the other process says ${JSON.stringify(kind)} where something else was due`)
