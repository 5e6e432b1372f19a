/**
 * Connections and UDP flows that an endpoint has not served, though it may be their clients' doing:
 * a cancel request, garbage and a client that is silent end as those of a server do that is ill.
 * So it takes several clients, with nobody served meanwhile.
 */
export interface Doubts {
  /** Different clients so far: one bit each, by a hash of the address; `allClients`: it has failed. */
  readonly clients: number
  /** Monotonic milliseconds, give or take 128: when the first of them was not served. */
  readonly since: number
}

export const noDoubts: Doubts = { clients: 0, since: 0 }

const mostClients = 14
export const allClients = 2 ** mostClients - 1

/** All clients of a sidecar may have one address: two of it that were not served, so far apart, are enough. */
const longMs = 5000

/**
 * The client with this hash of its address was not served; undefined: some client, and not by its
 * own doing. `isServedElsewhere`: asked before the client alone is believed.
 */
export const afterUnserved = (
  { clients, since }: Doubts,
  clientHash: number | undefined,
  now: number,
  isServedElsewhere: () => boolean = () => true,
): Doubts => {
  if (clients === 0) since = now
  if (clientHash === undefined) return { clients: allClients, since }
  const client = 1 << (clientHash % mostClients)
  const isLong = (clients & client) !== 0 && now - since >= longMs
  return { clients: isLong && isServedElsewhere() ? allClients : clients | client, since }
}

/** It has served, or failed in a way that is no client's doing. */
export const afterAnswer = ({ clients }: Doubts): Doubts | undefined =>
  clients === 0 ? undefined : noDoubts

/** Three clients are enough. */
export const isInDoubt = ({ clients }: Doubts): boolean => {
  const withoutOne = clients & (clients - 1)
  return (withoutOne & (withoutOne - 1)) !== 0
}
