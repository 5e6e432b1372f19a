/** How the server behaves as long as nothing is wrong; may be changed while it runs. */
export interface Behaviour {
  /** Between two bookmarks of a watch; a real server takes a minute. */
  bookmarkEveryMs: number
  /**
   * `sendInitialEvents`: `on` as in Kubernetes 1.32 and from 1.34; `refused` with 422 where
   * the feature gate WatchList is off, as in 1.27 to 1.31 and 1.33; `unknown` as to 1.26,
   * which refuses resourceVersionMatch; `ignored` as before 1.19, which knew neither;
   * `unable` where etcd is too old for it, an ERROR event.
   */
  streamingLists: 'on' | 'refused' | 'unknown' | 'ignored' | 'unable'
  /**
   * A watch from a forgotten version: 200 and an ERROR event, as of all servers of the
   * last years, or HTTP 410, which whatever stands before them may make of it.
   */
  goneAs: 'status' | 'event'
  /**
   * A watch from a version yet to come: a real server says nothing until it is reached
   * (`wait`). `gone` is 410 and `too-large` 504, as of other stores than etcd.
   */
  futureWatch: 'wait' | 'gone' | 'too-large'
  /** Whether Services can be selected by spec.clusterIP, as from 1.31; otherwise 400. */
  serviceFields: boolean
  /** Collections that answer 404, as where the API is not served. */
  readonly off: Set<string>
}

export const defaultBehaviour = (): Behaviour => ({
  bookmarkEveryMs: 1000,
  streamingLists: 'on',
  goneAs: 'event',
  futureWatch: 'wait',
  serviceFields: true,
  off: new Set(),
})

/**
 * The server of Kubernetes 1.`minor` as it comes, 1.25 to 1.37: the defaults of its feature
 * gates (apiserver, features/kube_features.go), and the groups that it serves.
 */
export const behaviourOf = (minor: number): Partial<Behaviour> => ({
  streamingLists: minor < 27 ? 'unknown' : minor === 32 || minor > 33 ? 'on' : 'refused',
  serviceFields: minor > 30,
  off: new Set(minor < 33 ? ['servicecidrs'] : []),
})
