/**
 * What has come back of an endpoint's UDP flows. That nothing comes back is a failure only where
 * other endpoints answer: syslog is never answered, and then silence says nothing of an endpoint.
 * Nor does it where they answer few of their flows, as the next few may be theirs by chance. And it
 * takes several clients, see doubts.ts: one may say what no server answers.
 */
export interface Replies {
  /** Monotonic milliseconds of the last reply; 0: there was none. */
  readonly at: number
  /** Who had it: a hash of the client's address, below `replyClients`. */
  readonly client: number
  /** How far replies outweigh silence: 1 for a flow that had one, less 2 for one that had none; 0 to 7. */
  readonly weight: number
}

export const noReplies: Replies = { at: 0, client: 0, weight: 0 }

export const replyClients = 64

/** Only an endpoint that answers two flows of three, and more, keeps so much for long. */
const enoughWeight = 2
const mostWeight = 7

/** A flow of the client with this hash had its first reply. */
export const afterReply = (
  { weight }: Replies,
  clientHash: number,
  now: number,
): Replies => ({
  at: now,
  client: clientHash % replyClients,
  weight: Math.min(weight + 1, mostWeight),
})

/** A flow ended without a reply to what its client wrote last. */
export const afterSilence = (before: Replies): Replies | undefined =>
  before.weight === 0 ? undefined : { ...before, weight: Math.max(before.weight - 2, 0) }

/** Whether an endpoint answers nearly all, and has answered since then. */
export const isAnswering = ({ weight, at }: Replies, since: number): boolean =>
  weight >= enoughWeight && at >= since
