/**
 * Failures of this process or host, not of the endpoint: out of descriptors, buffers or
 * source ports. Trying another endpoint would not help, and blaming this one is wrong.
 */
const localFailures = new Set(['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM', 'EADDRNOTAVAIL'])

export const isLocalFailure = (code: string): boolean => localFailures.has(code)

/** The errno name of an error, or its message where it has none. */
export const errorCode = (error: NodeJS.ErrnoException): string =>
  error.code ?? error.message
