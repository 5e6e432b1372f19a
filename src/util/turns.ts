/** Runs tasks one after another, in the order in which they came. */
export class Turns {
  #last: Promise<unknown> = Promise.resolve()

  /** Settles as the task does; one that fails does not keep the next from its turn. */
  take<T>(task: () => Promise<T>): Promise<T> {
    const result = this.#last.then(task)
    // The caller gets a failure.
    this.#last = result.catch(() => {})
    return result
  }
}
