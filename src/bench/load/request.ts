/** Size of a request, and of its response. */
export const requestBytes = 64

/** A request that carries its sender's number, so that a response gone astray is seen. */
export const requestOf = (sender: number): Buffer =>
  Buffer.alloc(requestBytes, sender % 251)
