/** How often the wanted state is applied. Milliseconds; see `SyncRunner`. */
export interface Periods {
  readonly syncPeriod: number
  readonly minSyncPeriod: number
}
