/*
 * Rings of proxies that lead to each other. One of them can't see in a connection or datagram that it has
 * passed here before, but for the TTL of its packets (hop limit in IPv6), which each sender chooses. Hosts
 * begin with 64, 128 or 255, and no path takes off 55. So a listener with many connections passes them on
 * with a TTL that counts down from 255, as a router would: what has come through 95 hops goes round.
 */

/** Open connections, or flows, of a listener in one worker from which on it looks. */
export const fewConnections = 32
export const fewFlows = 64

/** What others are passed on with whose packets came with `ttl`. */
export const ttlOnward = (ttl: number): number =>
  ttl <= 128 ? 255 : Math.max(ttl - 1, 129)

/** It has passed more than 55 hops. */
export const isFar = (ttl: number): boolean => ttl > 160 && ttl <= 200

/** `far`: open ones that `isFar` holds for: without them it is a host that begins with an odd number. */
export const comesRound = (ttl: number, far: number): boolean =>
  far > 0 && ttl > 128 && ttl <= 160

export const ringText = 'it goes round: an endpoint leads back here through other proxies'
