/** A promise that somebody else settles. */
export class Deferred<T> {
  readonly promise: Promise<T>
  resolve: (value: T) => void = () => {}
  reject: (reason: Error) => void = () => {}

  constructor() {
    this.promise = new Promise((resolve, reject) => {
      this.resolve = resolve
      this.reject = reject
    })
    // Whoever waits for it hears of a failure; nobody has to.
    this.promise.catch(() => {})
  }
}
