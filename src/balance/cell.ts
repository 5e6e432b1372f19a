/** Where a state of one endpoint is kept; several threads may share it. */
export interface Cell<State> {
  read(): State
  /**
   * Puts what `change` makes of it in its place, at once: no other's change comes between. False
   * where that is undefined, or the place is another endpoint's by now.
   */
  change(change: (state: State) => State | undefined): boolean
}

/** That of an endpoint that one thread alone has. */
export class OwnCell<State> implements Cell<State> {
  #state: State

  constructor(state: State) {
    this.#state = state
  }

  read(): State {
    return this.#state
  }

  change(change: (state: State) => State | undefined): boolean {
    const next = change(this.#state)
    if (next !== undefined) this.#state = next
    return next !== undefined
  }
}
