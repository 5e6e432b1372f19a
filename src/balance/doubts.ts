/**
 * Connections that an endpoint has not served, though it may be their clients' doing: a cancel
 * request, garbage and a client that is silent end as those of a server do that is ill. So it
 * takes several of them, with nobody served meanwhile.
 */
export interface Doubts {
  /** Different clients so far; `enoughClients`: the endpoint has failed. */
  readonly clients: number
  /** Monotonic milliseconds, give or take 128: when the first of them was not served. */
  readonly since: number
  /** Of the first and the second of them 6 bits each, by which they are told apart. */
  readonly marks: readonly [number, number]
}

export const noDoubts: Doubts = { clients: 0, since: 0, marks: [0, 0] }

export const enoughClients = 3

/** All clients of a sidecar may have one address: two that were not served, so far apart, are enough. */
const longMs = 5000

const mostMarks = 64

/**
 * The client with this hash of its address was not served; undefined: some client, and not by its
 * own doing. Undefined where nothing changes by that.
 */
export const afterUnserved = (
  before: Doubts,
  clientHash: number | undefined,
  now: number,
): Doubts | undefined => {
  const { clients, since, marks } = before
  if (clients >= enoughClients) return undefined
  const isLong = clients > 0 && now - since >= longMs
  if (clientHash === undefined || isLong) return { ...before, clients: enoughClients }
  const mark = clientHash % mostMarks
  const [first, second] = marks
  if (clients === 0) return { clients: 1, since: now, marks: [mark, 0] }
  if (mark === first || (clients === 2 && mark === second)) return undefined
  return { clients: clients + 1, since, marks: [first, clients === 1 ? mark : second] }
}

/** It has served, or failed in a way that is no client's doing. */
export const afterAnswer = ({ clients }: Doubts): Doubts | undefined =>
  clients === 0 ? undefined : noDoubts

export const isInDoubt = ({ clients }: Doubts): boolean => clients >= enoughClients
