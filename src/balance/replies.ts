/**
 * What has come back of an endpoint's UDP flows. That nothing comes back is a failure only where
 * other endpoints answer: syslog is never answered, and then silence says nothing of an endpoint.
 * Nor does it where they answer few of their flows, as the next few may be theirs by chance.
 */
export interface Replies {
  /** Flows in a row that ended without a reply, as far as they are counted. */
  readonly unanswered: number
  /**
   * Monotonic milliseconds: when the client last wrote to the first of those. Without any, when the
   * last reply came.
   */
  readonly since: number
  readonly hasAnswered: boolean
  /** How far replies outweigh silence: 1 for a flow that had one, less 2 for one that had none; 0 to 7. */
  readonly weight: number
}

export const noReplies: Replies = {
  unanswered: 0,
  since: 0,
  hasAnswered: false,
  weight: 0,
}

/** One datagram may be lost, and one client may say what no server answers. */
export const enoughUnanswered = 3

/** Only an endpoint that answers two flows of three, and more, keeps so much for long. */
const enoughWeight = 2
const mostWeight = 7

/** A flow had its first reply. */
export const afterReply = ({ weight }: Replies, now: number): Replies => ({
  unanswered: 0,
  since: now,
  hasAnswered: true,
  weight: Math.min(weight + 1, mostWeight),
})

/**
 * A flow ended without a reply to what its client wrote last, at `sentAt`. Where the endpoint has
 * answered another since, it is not silent for that.
 */
export const afterSilence = (before: Replies, sentAt: number): Replies => {
  const { unanswered, since } = before
  const weight = Math.max(before.weight - 2, 0)
  if (sentAt < since) return { ...before, weight }
  return {
    ...before,
    unanswered: Math.min(unanswered + 1, enoughUnanswered),
    since: unanswered === 0 ? sentAt : since,
    weight,
  }
}

/** Whether another endpoint answers nearly all, and has answered since `own` began to be silent. */
export const isAnswering = (other: Replies, own: Replies): boolean =>
  other.weight >= enoughWeight && other.unanswered === 0 && other.since >= own.since
