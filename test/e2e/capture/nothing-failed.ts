import type { Test } from 'tap'
import type { FailedConnection, LoadResult } from './under-load.ts'

/** No connection failed that `counts`, and there were some. */
export const nothingFailed = (
  t: Test,
  { failures, answered }: LoadResult,
  counts: (failure: FailedConnection) => boolean = () => true,
): void => {
  const lines = failures
    .filter(counts)
    .map(
      ({ from, address, port, startedAt, result, ms }) =>
        `${result} after ${ms} ms: ${address} ${port} from ${from} at ${startedAt}`,
    )
  t.strictSame(lines.slice(0, 20), [], `no connection failed; ${lines.length} did`)
  t.ok(answered > 50, `there were some: ${answered}`)
}
