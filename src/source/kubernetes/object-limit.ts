/**
 * The longest JSON of one object or watch event. The API server takes no request over
 * 3 MiB, and etcd no value over 1.5 MiB, which as JSON is about twice that.
 */
export const mostObjectBytes = 4 * 1024 * 1024

export class TooLargeError extends Error {
  override readonly name = 'TooLargeError'
  constructor() {
    super('an object of more than 4 MiB')
  }
}
