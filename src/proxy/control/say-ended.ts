import type { StandingOrder } from '../../mode/operator-orders.ts'
import type { Log } from '../../observe/log.ts'
import { shortName } from './named-service-ports.ts'

const what = {
  pause: 'a pause has ended',
  drain: 'a drain has ended',
  weight: 'a weight by order has ended',
} as const

/** More are a line with their number. */
const mostLines = 20

/** Says which orders have ended by themselves, and why. */
export const sayEnded = (
  log: Log,
  orders: readonly StandingOrder[],
  why: string,
): void => {
  for (const { kind, name, endpoint } of orders.slice(0, mostLines)) {
    const whose = endpoint === '' ? {} : { endpoint }
    log.info({ route: shortName(name), ...whose, why }, what[kind])
  }
  const more = orders.length - mostLines
  if (more > 0) log.info({ more, why }, 'more orders have ended')
}
