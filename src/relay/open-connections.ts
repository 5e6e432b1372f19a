/** An open TCP connection, as it is now. */
export interface OpenConnection {
  /** Never another's, also after a restart. */
  readonly id: string
  /** Name of its listener. */
  readonly listener: string
  /** `ip:port`. */
  readonly client: string
  /** Where it is connected to; '' while it is not. */
  readonly endpoint: string
  /** `waiting`: for an endpoint to come back, or the end of a pause; `ending`: a side has ended. */
  readonly state: 'dialling' | 'waiting' | 'open' | 'ending'
  /** Since its accept. */
  readonly ageMs: number
  readonly bytesToBackend: number
  readonly bytesToClient: number
  /** Since something came from either side; undefined where that is not known. */
  readonly idleMs?: number | undefined
}

export interface ConnectionsQuery {
  /** Names; undefined: all. */
  readonly listeners?: readonly string[] | undefined
  /** `next` of the page before; undefined: the first one. */
  readonly after?: string | undefined
  /** How many are described at most; the others are counted. Undefined: all are described. */
  readonly limit?: number | undefined
}

export interface ConnectionsPage {
  readonly connections: readonly OpenConnection[]
  /** How many more there are in this page, beyond the limit. */
  readonly counted: number
  /** Undefined: this was the last page. */
  readonly next: string | undefined
}

/** Connections described in one page: less than some milliseconds' work. */
const mostDescribed = 100
/** Those that are looked at for a page, and left out of it. */
const mostVisited = 20_000

/**
 * Names connections so that no two ever have the same: the thread, when it started (as threads
 * that died are replaced under their number), and a number that only grows.
 */
export class ConnectionIds {
  readonly #prefix: string
  #last = 0

  /** `startedAt`: epoch milliseconds. */
  constructor(thread: number, startedAt = Date.now()) {
    this.#prefix = `${thread}-${startedAt.toString(36)}-`
  }

  /** 1, 2, ... */
  next(): number {
    this.#last += 1
    return this.#last
  }

  idOf(serial: number): string {
    return this.#prefix + String(serial)
  }

  /** Undefined where it is none of this thread's since it started. */
  serialOf(id: string): number | undefined {
    if (!id.startsWith(this.#prefix)) return undefined
    const digits = id.slice(this.#prefix.length)
    return /^[1-9]\d{0,15}$/.test(digits) ? Number(digits) : undefined
  }
}

/** The number of the thread in an id. */
export const threadOf = (id: string): number => Number.parseInt(id, 10)

/** A connection as it is looked for. */
export interface Listed {
  readonly serial: number
  /** Name of its listener. */
  readonly listener: string
}

/** One page of those that are open, which are in the order of their serials. */
export const connectionsPage = <C>(
  all: Iterable<C>,
  ids: ConnectionIds,
  { listeners, after = '', limit = Infinity }: ConnectionsQuery,
  listed: (connection: C) => Listed,
  describe: (connection: C) => Omit<OpenConnection, 'id' | 'listener'>,
): ConnectionsPage => {
  const names = listeners && new Set(listeners)
  const first = ids.serialOf(after) ?? 0
  const connections: OpenConnection[] = []
  let [visited, counted, last] = [0, 0, first]
  for (const one of all) {
    const { serial, listener } = listed(one)
    if (serial <= first) continue
    if (connections.length === mostDescribed || visited === mostVisited)
      return { connections, counted, next: ids.idOf(last) }
    visited += 1
    last = serial
    if (names?.has(listener) === false) continue
    if (connections.length >= limit) counted += 1
    else connections.push({ id: ids.idOf(serial), listener, ...describe(one) })
  }
  return { connections, counted, next: undefined }
}

/** What records say of a connection that was closed by its id. */
export const closedDetail = 'closed by an operator'

/** The serials of those that are this thread's. */
export const serialsOf = (
  ids: ConnectionIds,
  given: readonly string[],
): ReadonlySet<number> => new Set(given.flatMap(id => ids.serialOf(id) ?? []))
