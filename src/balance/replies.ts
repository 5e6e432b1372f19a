/**
 * What has come back of an endpoint's UDP flows. That nothing comes back is a failure only where
 * other endpoints answer: syslog is never answered, and then silence says nothing of an endpoint.
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
}

export const noReplies: Replies = { unanswered: 0, since: 0, hasAnswered: false }

/** One datagram may be lost, and one client may say what no server answers. */
export const enoughUnanswered = 3

/** A flow had its first reply. */
export const afterReply = (now: number): Replies => ({
  unanswered: 0,
  since: now,
  hasAnswered: true,
})

/**
 * A flow ended without a reply to what its client wrote last, at `sentAt`; undefined where the
 * endpoint has answered another since.
 */
export const afterSilence = (
  { unanswered, since, hasAnswered }: Replies,
  sentAt: number,
): Replies | undefined =>
  sentAt < since
    ? undefined
    : {
        unanswered: Math.min(unanswered + 1, enoughUnanswered),
        since: unanswered === 0 ? sentAt : since,
        hasAnswered,
      }

/** Whether another endpoint answers, and has answered since `own` began to be silent. */
export const isAnswering = (other: Replies, own: Replies): boolean =>
  other.hasAnswered && other.unanswered === 0 && other.since >= own.since
