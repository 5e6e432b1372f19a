/** How the server behaves as long as nothing is wrong; may be changed while it runs. */
export interface Behaviour {
  /** Between two bookmarks of a watch; a real server takes a minute. */
  bookmarkEveryMs: number
  /**
   * `sendInitialEvents`: `on` as from Kubernetes 1.34; `refused` with 422 as where the
   * feature gate WatchList is off; `ignored` as before 1.27.
   */
  streamingLists: 'on' | 'refused' | 'ignored'
  /** A watch from a forgotten version: HTTP 410, or 200 and an ERROR event. */
  goneAs: 'status' | 'event'
  /**
   * A watch from a version yet to come: a real server says nothing until it is reached
   * (`wait`); `gone` is 410, `too-large` is 504.
   */
  futureWatch: 'wait' | 'gone' | 'too-large'
  /** Whether fields other than the name can be selected by; otherwise 400. */
  fieldSelectors: boolean
  /** Collections that answer 404, as where the API is not served. */
  readonly off: Set<string>
}

export const defaultBehaviour = (): Behaviour => ({
  bookmarkEveryMs: 1000,
  streamingLists: 'on',
  goneAs: 'event',
  futureWatch: 'wait',
  fieldSelectors: true,
  off: new Set(),
})
