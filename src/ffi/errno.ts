import { constants } from 'node:os'
import { getSystemErrorMap, getSystemErrorName } from 'node:util'

/** Where the numbers of the C library are others (Windows), those that Node has names for. */
const named = Object.fromEntries(
  [...getSystemErrorMap()].map(([number, [name]]) => [name, -number]),
)

/**
 * The errors that the relay tells apart (errno(3)). System calls answer them as negative
 * numbers, as the kernel does: `result === -errno.EAGAIN`.
 */
export const errno: typeof constants.errno = { ...constants.errno, ...named }

/** The number of an error that Node has made of one; EIO where it has none. */
export const errnoOf = (error: Error): number => {
  const { code = '' } = error as NodeJS.ErrnoException
  return (errno as Readonly<Record<string, number>>)[code] ?? errno.EIO
}

/** The name of a negative result, such as `ECONNREFUSED` of -111. */
export const errnoName = (result: number): string => getSystemErrorName(result)

/** An error for where one is thrown: what could not be done, and the errno's name as `code`. */
export const systemError = (what: string, result: number): NodeJS.ErrnoException => {
  const code = errnoName(result)
  return Object.assign(new Error(`${what}: ${code}`), { code, errno: result })
}
