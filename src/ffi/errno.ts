import { constants } from 'node:os'
import { getSystemErrorName } from 'node:util'

/**
 * The errors that the relay tells apart (errno(3)). System calls answer them as negative
 * numbers, as the kernel does: `result === -errno.EAGAIN`.
 */
export const errno = constants.errno

/** The name of a negative result, such as `ECONNREFUSED` of -111. */
export const errnoName = (result: number): string => getSystemErrorName(result)

/** An error for where one is thrown: what could not be done, and the errno's name as `code`. */
export const systemError = (what: string, result: number): NodeJS.ErrnoException => {
  const code = errnoName(result)
  return Object.assign(new Error(`${what}: ${code}`), { code, errno: result })
}
