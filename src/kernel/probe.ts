/** Whether something can be had here, found out by really doing it. */
export interface Probe {
  readonly usable: boolean
  /** Why not, naming what is missing; or by what, as in `nft 1.0.6`. */
  readonly detail: string
}
