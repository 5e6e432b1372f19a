import type { RelayEngine } from '../engine/relay-engine.ts'
import type {
  HandsOver,
  ListenerStats,
  RelayFront,
  RelayListener,
  RelayStats,
} from '../relay.ts'
import type { Call, StatsPage } from './messages.ts'
import type { Outbox } from '../remote/outbox.ts'
import { packListener } from './packed-stats.ts'
import { type AddressRanges, ownRanges } from '../../util/address-ranges.ts'

/** Listeners and endpoints of one page: about a millisecond's work at either end. */
const pageWeight = 1000
/** Of a listener that is read and sent, beside its binds and endpoints. */
const listenerWeight = 10

/** Of the relay in this process. */
export type ServedRelay = Pick<RelayEngine, 'change' | 'stats' | 'query' | 'drain'> &
  HandsOver

interface StatsRead {
  readonly stats: RelayStats
  readonly listeners: Iterator<ListenerStats>
  /** How many have been looked at. */
  seen: number
}

/** Carries out what the parent calls for, on the relay of this process. */
export class RelayServer {
  readonly #relay: ServedRelay
  readonly #outbox: Outbox
  /** What is to be changed with the next `apply`. */
  readonly #left = new Set<string>()
  readonly #changed = new Map<string, RelayListener>()
  /** The newest that was asked for. */
  #readNumber = 0
  #read: StatsRead | undefined
  /** The figures that the parent has, by id. */
  readonly #sent = new Map<string, ListenerStats>()

  constructor(relay: ServedRelay, outbox: Outbox) {
    this.#relay = relay
    this.#outbox = outbox
  }

  /** Rejects with what the relay rejects with. */
  async handle(call: Call): Promise<unknown> {
    if (call.kind === 'change') return this.#change(call.gone, call.changed)
    if (call.kind === 'stats') return this.#page(call.read)
    try {
      switch (call.kind) {
        case 'query':
          return await this.#relay.query(call.name, call.params)
        case 'drain':
          return await this.#relay.drain(call.ms)
        case 'hand-over':
          return await this.#relay.handOver()
        case 'handed-over':
          return await this.#relay.handedOver()
        case 'take-over':
          return await this.#relay.takeOver(call.place)
        case 'finish-take-over':
          return await this.#relay.finishTakeOver()
        case 'apply':
          return await this.#apply()
        default:
          throw new Error(`there is no call ${JSON.stringify(call)}`)
      }
    } finally {
      // What became of binds and connections is known before the call is over.
      this.#outbox.flush()
    }
  }

  #change(gone: readonly string[], changed: readonly RelayListener[]): null {
    for (const id of gone) {
      this.#left.add(id)
      this.#changed.delete(id)
    }
    for (const one of changed) {
      // It has come back: nothing of it is to be closed.
      this.#left.delete(one.id)
      this.#changed.set(one.id, withOwnRanges(one))
    }
    return null
  }

  async #apply(): Promise<null> {
    const [gone, changed] = [[...this.#left], [...this.#changed.values()]]
    this.#left.clear()
    this.#changed.clear()
    await this.#relay.change(gone, changed)
    return null
  }

  /** Rejects when there is a newer read: its pages are not for who gave the older one up. */
  #page(number: number): StatsPage {
    if (number > this.#readNumber) {
      this.#readNumber = number
      const stats = this.#relay.stats()
      // Figures, log and health must agree on binds.
      this.#outbox.flush()
      const listeners = stats.listeners[Symbol.iterator]()
      this.#read = { stats, listeners, seen: 0 }
    }
    if (number !== this.#readNumber || this.#read === undefined)
      throw new Error(`look ${number} at the figures: there is a newer look`)
    return this.#pageOf(this.#read)
  }

  #pageOf(read: StatsRead): StatsPage {
    const { stats, listeners } = read
    const { fds, acceptPaused, workers = [] } = stats
    const whole = { fds, acceptPaused, ...(workers.length > 0 && { workers }) }
    const page: StatsPage['listeners'][number][] = []
    for (let weight = 0; weight < pageWeight; weight += 1) {
      const { value, done } = listeners.next()
      if (done === true)
        return { listeners: page, gone: this.#gone(read), last: true, whole }
      read.seen += 1
      if (this.#sent.get(value.id) === value) continue
      this.#sent.set(value.id, value)
      page.push(packListener(value))
      weight += listenerWeight + value.binds.length + value.endpoints.length
    }
    return { listeners: page, gone: [], last: false, whole }
  }

  /** Most reads find none: they make no list of all. */
  #gone({ stats, seen }: StatsRead): readonly string[] {
    if (seen === this.#sent.size) return []
    const there = new Set(Array.from(stats.listeners, ({ id }) => id))
    const gone = [...this.#sent.keys()].filter(id => !there.has(id))
    for (const id of gone) this.#sent.delete(id)
    return gone
  }
}

/**
 * A listener that has come from another process, with ranges of clients in memory of their own. As they
 * came they are parts of the whole message, which would be copied for each thread that gets them.
 */
export const withOwnRanges = (listener: RelayListener): RelayListener => {
  const { clients, fronts } = listener
  const isSelective = fronts.some(({ allowedClients }) => allowedClients !== undefined)
  if (clients === undefined && !isSelective) return listener
  return {
    ...listener,
    fronts: fronts.map(withOwn),
    ...(clients && {
      clients: {
        deny: allOwn(clients.deny),
        allow: allOwn(clients.allow),
        probers: allOwn(clients.probers),
      },
    }),
  }
}

const withOwn = (front: RelayFront): RelayFront => ({
  ...front,
  allowedClients: front.allowedClients && ownRanges(front.allowedClients),
})

const allOwn = (
  all: readonly AddressRanges[] | undefined,
): readonly AddressRanges[] | undefined => all?.map(ownRanges)
