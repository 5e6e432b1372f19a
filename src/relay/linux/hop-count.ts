/*
 * Rings of proxies that lead to each other. One of them can't see in a connection or datagram that
 * it has passed here before, but for the TTL of its packets (hop limit in IPv6), which each sender
 * chooses. Hosts begin with 64, 128 or 255, and no path takes off 55. So a listener with many
 * connections passes them on with a TTL that counts down from 255, as a router would: nothing is
 * delayed, and what has come through 95 hops goes round.
 */

/** Open connections, or flows, of a listener in one worker from which on it looks. */
export const fewConnections = 32
export const fewFlows = 64

const [most, leastFar, leastCounted] = [255, 160, 128]

/** What others are passed on with whose packets came with `ttl`. */
export const ttlOnward = (ttl: number): number =>
  ttl <= leastCounted ? most : Math.max(ttl - 1, leastCounted + 1)

/** It has passed more than 55 hops, and some more may do. */
export const isFar = (ttl: number): boolean => ttl > leastFar && ttl <= 200

/**
 * `far`: how many of those are open. A host that begins with an odd number has come alone, and a ring
 * never without them.
 */
export const comesRound = (ttl: number, far: number): boolean =>
  far > 0 && ttl > leastCounted && ttl <= leastFar

export const ringText =
  'it goes round: an endpoint leads back here, through other proxies; take it out'
