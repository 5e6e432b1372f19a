/** One that would have come first, and why it does not work here. */
export interface PassedOver {
  readonly name: string
  readonly detail: string
}

/** What runs, of several that could. */
export interface Selection<Name extends string> {
  readonly name: Name
  /** Why it was taken, or what it is of, as in `iptables 1.8.9 (nf_tables)`; '' for nothing to say. */
  readonly detail: string
  readonly passedOver: readonly PassedOver[]
}
