import type { GroupTurn } from '../health/group-health.ts'
import type { Log } from '../observe/log.ts'

/** Says in the log that an endpoint has turned; `kind` is what its group is. */
export const turnLog =
  (log: Log, kind: 'route' | 'service') =>
  ({ group, endpoint, host, up, why }: GroupTurn): void => {
    const where = { [kind]: group, endpoint, ...(host !== '' && { host }) }
    if (up) log.info(where, 'an endpoint is up')
    else log.warn({ ...where, why }, 'an endpoint is down')
  }
