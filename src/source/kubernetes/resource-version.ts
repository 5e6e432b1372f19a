import { ApiError } from './api-error.ts'
import { hasCode } from '../../util/usher-error.ts'

const decimal = /^(0|[1-9]\d*)$/

/**
 * Whether one resourceVersion is older than another: they are decimal numbers that may be
 * compared (KEP-5504; etcd's revisions). False where one is something else: then a watch's
 * order has to be trusted.
 */
export const isOlder = (a: string, b: string): boolean =>
  decimal.test(a) &&
  decimal.test(b) &&
  (a.length < b.length || (a.length === b.length && a < b))

const gone = 410

/** Whether all has to be listed after this error. */
export const isRelist = (error: Error): boolean =>
  hasCode(error, 'RELIST') ||
  (error instanceof ApiError && (error.status === gone || error.behind))

/** Why a server that is at `theirs` is not the one that was at `ours`; '' when it may be. */
export const fallsBehind = (theirs: string, ours: string): string =>
  isOlder(theirs, ours)
    ? `the server is at resourceVersion ${theirs}, before ${ours}: it holds an older state`
    : ''
