/** What happens between Usher and the API server, for the log. `resource` is `services`. */
export interface KubernetesObserver {
  /** A watch stands again after `lost`, or for the first time. */
  connected(resource: string): void
  /**
   * The newest state can't be had. Said when the reason changes, and again while it lasts,
   * at most once a minute. `lastWordAt`: epoch milliseconds, undefined before the first.
   */
  lost(resource: string, why: string, lastWordAt: number | undefined): void
  /** All was read anew; what had not changed was not told again. */
  relisted(resource: string, why: string): void
  /** The server can't do something; how it is done from now on. */
  fellBack(resource: string, how: string): void
}
