import { type Linked, LinkedSet } from '../util/linked-set.ts'

/** A client, the key of its endpoint, and for how many milliseconds that was not used. */
export type Remembered = readonly [client: string, endpoint: string, idleMs: number]

class Entry implements Linked<Entry> {
  readonly client: string
  endpoint: string
  lastUsed: number
  setNext: Entry | undefined = undefined
  setPrevious: Entry | undefined = undefined

  constructor(client: string, endpoint: string, lastUsed: number) {
    this.client = client
    this.endpoint = endpoint
    this.lastUsed = lastUsed
  }
}

/**
 * Which endpoint each client is to come back to (ClientIP affinity). Entries end when
 * unused for `timeoutMs`, when their endpoint goes, or when there are more than
 * `capacity` and they were used least recently: a flood of client addresses must not
 * fill the memory. Times are monotonic milliseconds, never smaller than the one before.
 *
 * A Map alone could be the list, in order of insertion, but finding its oldest key after
 * many deletions means walking over their remains: 20 us an eviction at 65536 entries.
 */
export class Affinity {
  readonly #capacity: number
  readonly #entries = new Map<string, Entry>()
  /** From least to most recently used, so that every step is O(1). */
  readonly #byUse = new LinkedSet<Entry>()

  /** Compared at each lookup, so that a changed timeout counts for old entries too. */
  timeoutMs: number

  constructor(timeoutMs: number, capacity = 65_536) {
    this.timeoutMs = timeoutMs
    this.#capacity = capacity
  }

  get size(): number {
    return this.#entries.size
  }

  /** The key of the client's endpoint. Refreshes nothing: only `remember` does. */
  lookup(client: string, now: number): string | undefined {
    const entry = this.#entries.get(client)
    if (entry === undefined || this.#isExpired(entry, now)) return undefined
    return entry.endpoint
  }

  /** Milliseconds until the client's entry ends, if it does not come before; 0 where it has none. */
  leftMs(client: string, now: number): number {
    const entry = this.#entries.get(client)
    return entry === undefined ? 0 : Math.max(0, entry.lastUsed + this.timeoutMs - now)
  }

  /** Sends the client to `endpoint` from now on, for as long as it comes often enough. */
  remember(client: string, endpoint: string, now: number): void {
    let entry = this.#entries.get(client)
    if (entry === undefined) {
      entry = new Entry(client, endpoint, now)
      this.#entries.set(client, entry)
    } else {
      this.#byUse.delete(entry)
      entry.endpoint = endpoint
      entry.lastUsed = now
    }
    this.#byUse.add(entry)
    const oldest = this.#byUse.first
    if (this.#entries.size > this.#capacity && oldest !== undefined) this.#drop(oldest)
  }

  /** Those used within `ms`, from least to most recently used. */
  usedWithin(ms: number, now: number): Remembered[] {
    const used: Remembered[] = []
    for (const one of this.#byUse) {
      const idleMs = now - one.lastUsed
      if (idleMs <= ms && !this.#isExpired(one, now))
        used.push([one.client, one.endpoint, idleMs])
    }
    return used
  }

  /** What another one has remembered, but for those known to have been used since. O(entries). */
  adopt(clients: readonly Remembered[], now: number): void {
    const news = clients.filter(([client, , idleMs]) => {
      const known = this.#entries.get(client)
      return idleMs < this.timeoutMs && (known?.lastUsed ?? -Infinity) < now - idleMs
    })
    if (news.length === 0) return
    for (const [client, endpoint, idleMs] of news) {
      const entry = this.#entries.get(client) ?? new Entry(client, endpoint, now)
      entry.endpoint = endpoint
      entry.lastUsed = now - idleMs
      this.#entries.set(client, entry)
      if (!this.#byUse.has(entry)) this.#byUse.add(entry)
    }
    this.#sort()
    for (const oldest of this.#byUse) {
      if (this.#entries.size <= this.#capacity) return
      this.#drop(oldest)
    }
  }

  /** Drops the entries whose endpoint is not one of `endpoints`. O(entries). */
  retain(endpoints: { has(key: string): boolean }): void {
    for (const entry of this.#entries.values()) {
      if (!endpoints.has(entry.endpoint)) this.#drop(entry)
    }
  }

  /** Drops what has expired, from the oldest on; costs no more than it drops. */
  sweep(now: number): void {
    for (const oldest of this.#byUse) {
      if (!this.#isExpired(oldest, now)) return
      this.#drop(oldest)
    }
  }

  #sort(): void {
    const all = [...this.#byUse].toSorted((one, other) => one.lastUsed - other.lastUsed)
    for (const entry of all) {
      this.#byUse.delete(entry)
      this.#byUse.add(entry)
    }
  }

  #isExpired(entry: Entry, now: number): boolean {
    return now - entry.lastUsed >= this.timeoutMs
  }

  #drop(entry: Entry): void {
    this.#byUse.delete(entry)
    this.#entries.delete(entry.client)
  }
}
