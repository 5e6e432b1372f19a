import type { EndedPage, EndedQuery } from './ended-connections.ts'
import type { Explanation, ExplainQuery } from './explanation.ts'
import type { ConnectionsPage, ConnectionsQuery } from './open-connections.ts'

/**
 * Queries to a relay, and to each thread and process behind it: one row each, with parameters and
 * result. Plain data, as they travel.
 */
export interface Queries {
  /**
   * A part of the open TCP connections, little enough that no thread is held up. Of those that
   * begin or end between two pages there may be some and not others.
   */
  readonly connections: {
    readonly params: ConnectionsQuery
    readonly result: ConnectionsPage
  }
  /** Resets the connections with these ids (cause `KD`); answered with those that were open. */
  readonly 'close-connections': {
    readonly params: readonly string[]
    readonly result: readonly string[]
  }
  /** TCP connections that have ended since the poll before; see `EndedConnections`. */
  readonly ended: { readonly params: EndedQuery; readonly result: EndedPage }
  /** Which endpoint a client would get now, and why not another; no turn is taken by it. */
  readonly explain: { readonly params: ExplainQuery; readonly result: Explanation }
}

export type QueryName = keyof Queries
export type QueryParams<Q extends QueryName> = Queries[Q]['params']
export type QueryResult<Q extends QueryName> = Queries[Q]['result']

/** Of what a relay does not have. */
export const notListening: Explanation = {
  closed: 'not listened on yet',
  by: 'round-robin',
  workers: [],
}

/** Of a thread or process that died before it answered, or is not there: it has no connections. */
export const emptyResults: { readonly [Q in QueryName]: QueryResult<Q> } = {
  connections: { connections: [], counted: 0, next: undefined },
  'close-connections': [],
  ended: { ended: [], leftOut: 0, gap: false, next: '', isFull: false },
  explain: notListening,
}

/** A query on its way. */
export interface Query {
  readonly kind: 'query'
  readonly name: QueryName
  readonly params: QueryParams<QueryName>
}

/** By query. */
export type QueryHandlers = {
  readonly [Q in QueryName]: (params: QueryParams<Q>) => QueryResult<Q>
}

export const handleQuery = <Q extends QueryName>(
  handlers: QueryHandlers,
  name: Q,
  params: QueryParams<Q>,
): QueryResult<Q> => handlers[name](params)
