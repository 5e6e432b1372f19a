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

export const ringText = 'it loops: an endpoint leads back here through other proxies'

/** Milliseconds that a dial waits more for each connection in a row without an answer, beyond so many. */
const [pauseStepMs, mostPauseMs, mostUnanswered] = [4, 250, 128]
/** Where many have ended their side: longer than it takes until that of the hop before is a reset. */
const [manyLeft, ofHalfClose] = [16, 1.25]

/**
 * For sockets of which no TTL is known. Where no endpoint of a listener has answered for many connections, dials
 * wait longer than a reset takes: that of a client that leaves overtakes the ring's newest hop.
 */
export class DialBrake {
  /** Connections to endpoints since one of them has answered, or ended its side, last. */
  sinceAnswer = 0
  /** Open connections of clients that have ended their side without an answer. */
  leftUnanswered = 0

  get pauseMs(): number {
    const beyond = Math.max(this.sinceAnswer - mostUnanswered, 0)
    return Math.min(beyond * pauseStepMs, mostPauseMs)
  }

  /** After that, for a client that has ended its side; `halfCloseMs`: how long it may stay so. */
  pauseOfEndedMs(halfCloseMs: number): number {
    return this.leftUnanswered > manyLeft ? ofHalfClose * halfCloseMs : 0
  }
}
