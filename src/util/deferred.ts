/** A promise that is settled from outside. */
export class Deferred<T> {
  readonly promise: Promise<T>
  resolve: (value: T) => void = () => {}
  reject: (reason: Error) => void = () => {}

  constructor() {
    this.promise = new Promise((resolve, reject) => {
      this.resolve = resolve
      this.reject = reject
    })
    // Those that wait for it get a failure; there may be none.
    this.promise.catch(() => {})
  }
}
