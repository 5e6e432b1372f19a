import { isOutOfResources } from '../../../util/out-of-resources.ts'
import { errno, errnoName } from '../errno.ts'

/** A write that may go on later. */
export const isPassing = (result: number): boolean =>
  result === -errno.EAGAIN || result === -errno.EINTR || isShortage(result)

/** The kernel has no memory for it now. */
export const isShortage = (result: number): boolean =>
  result !== -errno.EAGAIN && isOutOfResources(errnoName(result))
