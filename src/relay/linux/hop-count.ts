/*
 * Rings of proxies that lead to each other. One of them can't see in a connection or datagram that it has
 * passed here before, but for the TTL of its packets (hop limit in IPv6), which each sender chooses. Hosts
 * begin with 64, 128 or 255, and no path takes off 55. So a listener with many connections passes them on
 * with a TTL that counts down from 255, as a router would: what has come through 95 hops goes round.
 */

/** With no more than this packets begin at a host; what counts down has more. */
const mostOfHosts = 128

/** Open connections, or flows, of a listener in one worker from which on it looks. */
export const fewConnections = 128
export const fewFlows = 128

/**
 * Whether it is passed on with `ttlOnward`: all that others count down, and a part of what comes from hosts, as one
 * in a ring is enough to begin with and each costs system calls. `serial`: 1, 2, 3 and so on.
 */
export const isCounted = (ttl: number, serial: number): boolean =>
  ttl > mostOfHosts || serial % 16 === 0

/** What others are passed on with whose packets came with `ttl`. */
export const ttlOnward = (ttl: number): number =>
  ttl <= mostOfHosts ? 255 : Math.max(ttl - 1, mostOfHosts + 1)

/** It has passed more than 55 hops. */
export const isFar = (ttl: number): boolean => ttl > 160 && ttl <= 200

/** `far`: open ones that `isFar` holds for: without them it is a host that begins with an odd number. */
export const comesRound = (ttl: number, far: number): boolean =>
  far > 0 && ttl > mostOfHosts && ttl <= 160

export const ringText = 'it goes round: an endpoint leads back here through other proxies'
