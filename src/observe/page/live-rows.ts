import { countsPerRow } from '../../page/wire.ts'

/** A row's place, with the snapshot in which each part of it last changed. */
interface Slot {
  /** '' while nobody has it. */
  identity: string
  /** JSON of what is not counted. */
  text: string
  counts: readonly number[]
  textAt: number
  countsAt: number
  /** JSON; '' where there is none. */
  past: string
  pastAt: number
  seenAt: number
  /** By identity; [] where that says nothing. */
  madeOf: readonly unknown[]
}

/** Characters of one event, roughly. */
const pieceChars = 48 * 1024

/**
 * The rows of the page as of the last snapshot, so that each viewer can be sent what has changed since it
 * was last told. Looks are numbered from 1. A place that is free is taken again: whoever gets it has
 * another text, which says so.
 */
export class LiveRows {
  readonly #slots: Slot[] = []
  readonly #places = new Map<string, number>()
  readonly #free: number[] = []

  /** Whether a row is made of the same objects as when it was seen last, and so is the same in this snapshot. */
  isSame(number: number, identity: string, madeOf: readonly unknown[]): boolean {
    const place = this.#places.get(identity)
    const slot = place === undefined ? undefined : this.#slots[place]
    if (slot === undefined || madeOf.length === 0) return false
    if (!madeOf.every((part, i) => part === slot.madeOf[i])) return false
    slot.seenAt = number
    return true
  }

  /** `text` and `counts` of a row, in this snapshot, and what it is made of, for `isSame`. */
  see(
    number: number,
    identity: string,
    text: string,
    counts: readonly number[],
    madeOf: readonly unknown[] = [],
  ): void {
    const slot = this.#slotOf(identity)
    slot.seenAt = number
    slot.madeOf = madeOf
    if (slot.text !== text) [slot.text, slot.textAt] = [text, number]
    if (slot.countsAt > 0 && counts.every((count, i) => count === slot.counts[i])) return
    slot.counts = counts
    slot.countsAt = number
  }

  /** What was of late, in this snapshot, by identity. */
  seePasts(number: number, pasts: ReadonlyMap<string, string>): void {
    for (const slot of this.#slots) {
      const past = pasts.get(slot.identity) ?? ''
      if (slot.past !== past) [slot.past, slot.pastAt] = [past, number]
    }
  }

  /** The snapshot is complete: what it has not seen is gone. */
  seen(number: number): void {
    for (const [place, slot] of this.#slots.entries()) {
      if (slot.seenAt === number || slot.identity === '') continue
      this.#places.delete(slot.identity)
      this.#slots[place] = { ...free, textAt: number }
      this.#free.push(place)
    }
  }

  /** Events, in pieces, for the snapshots after `since` up to `number`. */
  *changes(since: number, number: number): Generator<string> {
    const isNew = (at: number): boolean => at > since && at <= number
    yield* events('gone', this.#gone(isNew))
    yield* events('rows', this.#texts(isNew))
    yield* events('counts', this.#counts(isNew))
    yield* events('past', this.#pasts(isNew))
  }

  #slotOf(identity: string): Slot {
    const known = this.#places.get(identity)
    if (known !== undefined) return this.#slots[known] as Slot
    const place = this.#free.pop() ?? this.#slots.length
    const slot = { ...free, identity }
    this.#slots[place] = slot
    this.#places.set(identity, place)
    return slot
  }

  *#gone(isNew: (at: number) => boolean): Generator<string> {
    for (const [place, { identity, textAt }] of this.#slots.entries())
      if (identity === '' && isNew(textAt)) yield String(place)
  }

  *#texts(isNew: (at: number) => boolean): Generator<string> {
    for (const [place, { identity, text, textAt }] of this.#slots.entries())
      if (identity !== '' && isNew(textAt)) yield `[${place},${text}]`
  }

  *#counts(isNew: (at: number) => boolean): Generator<string> {
    for (const [place, { identity, counts, countsAt }] of this.#slots.entries())
      if (identity !== '' && isNew(countsAt)) yield `${place},${counts.join(',')}`
  }

  *#pasts(isNew: (at: number) => boolean): Generator<string> {
    for (const [place, { identity, past, pastAt }] of this.#slots.entries())
      if (identity !== '' && isNew(pastAt)) yield `[${place},${past || '[]'}]`
  }
}

const free: Readonly<Slot> = {
  identity: '',
  text: '',
  counts: Array.from({ length: countsPerRow - 1 }, () => 0),
  textAt: 0,
  countsAt: 0,
  past: '',
  pastAt: 0,
  seenAt: 0,
  madeOf: [],
}

/** A server-sent event; `json` has no line breaks. */
export const event = (name: string, json: string): string =>
  `event: ${name}\ndata: ${json}\n\n`

function* events(name: string, items: Iterable<string>): Generator<string> {
  let piece = ''
  for (const item of items) {
    piece += piece === '' ? item : `,${item}`
    if (piece.length < pieceChars) continue
    yield event(name, `[${piece}]`)
    piece = ''
  }
  if (piece !== '') yield event(name, `[${piece}]`)
}
