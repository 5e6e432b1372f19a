import { isOutOfResources } from '../util/out-of-resources.ts'

/**
 * Failures of this process or host, not of the endpoint: out of descriptors, buffers or
 * source ports. Trying another endpoint would not help, and blaming this one is wrong.
 */
export const isLocalFailure = (code: string): boolean =>
  code === 'EADDRNOTAVAIL' || isOutOfResources(code)

/** The errno name of an error, or its message where it has none. */
export const errorCode = (error: NodeJS.ErrnoException): string =>
  error.code ?? error.message

/** How long others are preferred to an endpoint: what it costs to find out anew decides. */
export const restMs = { refused: 1000, silent: 10_000 }
