import type { Backend } from './backend.ts'

/*
 * Two proxies that name each other send a connection round for ever: when its client has left, the
 * reset follows the newest hop as fast as that makes the next one. Nothing in TCP or UDP carries a
 * mark from hop to hop, but an endpoint that leads into a ring answers nobody. So connections to an
 * endpoint that has left many clients without an answer wait a little before they are dialled: the
 * end of the first one overtakes them. A server that never answers by protocol serves as before.
 */

/** Milliseconds; for a hop the reset takes 1, in the portable relay up to 200 (`IdleWatch`). */
export const brakeMs = 500

const enough = 64

/** A connection or its client's side has ended, and nothing has come from its endpoint. */
export const noteUnanswered = (backend: Backend): void => {
  backend.unanswered = Math.min((backend.unanswered ?? 0) + 1, 2 * enough)
}

/** The first has come from it for a client. */
export const noteAnswered = (backend: Backend): void => {
  if (backend.unanswered) backend.unanswered -= 1
}

export const isBraked = ({ unanswered = 0 }: Backend): boolean => unanswered >= enough
