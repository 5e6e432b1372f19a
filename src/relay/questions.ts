import type { EndedPage, EndedQuery } from './ended-connections.ts'
import type { Explanation, ExplainQuery } from './explanation.ts'
import type { ConnectionsPage, ConnectionsQuery } from './open-connections.ts'

/**
 * What is asked of a relay by the way, and of each thread and process behind it: one row a question,
 * with what it takes and its answer. Plain data, as they travel.
 */
export interface Questions {
  /**
   * A part of the open TCP connections, little enough that no thread is held up. Of those that
   * begin or end between two pages there may be some and not others.
   */
  readonly connections: {
    readonly asked: ConnectionsQuery
    readonly answer: ConnectionsPage
  }
  /** Resets the connections with these ids (cause `KD`); answered with those that were open. */
  readonly 'close-connections': {
    readonly asked: readonly string[]
    readonly answer: readonly string[]
  }
  /** TCP connections that have ended since the look before; see `EndedConnections`. */
  readonly ended: { readonly asked: EndedQuery; readonly answer: EndedPage }
  /** Which endpoint a client would get now, and why not another; no turn is taken by it. */
  readonly explain: { readonly asked: ExplainQuery; readonly answer: Explanation }
}

export type Question = keyof Questions
export type Asked<Q extends Question> = Questions[Q]['asked']
export type AnswerTo<Q extends Question> = Questions[Q]['answer']

/** Of what a relay does not have. */
export const notThere: Explanation = {
  closed: 'not listened on yet',
  by: 'round-robin',
  workers: [],
}

/** Of a thread or process that has not lived to answer, or is not there: it has no connections. */
export const noAnswer: { readonly [Q in Question]: AnswerTo<Q> } = {
  connections: { connections: [], counted: 0, next: undefined },
  'close-connections': [],
  ended: { ended: [], leftOut: 0, gap: false, next: '', isFull: false },
  explain: notThere,
}

/** A question on its way. */
export interface Ask {
  readonly kind: 'ask'
  readonly question: Question
  readonly asked: Asked<Question>
}

/** Who answers, by question. */
export type Answerers = {
  readonly [Q in Question]: (asked: Asked<Q>) => AnswerTo<Q>
}

export const answerTo = <Q extends Question>(
  answerers: Answerers,
  question: Q,
  asked: Asked<Q>,
): AnswerTo<Q> => answerers[question](asked)
