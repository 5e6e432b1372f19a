import type { AnswerOf } from '../../observe/control-protocol.ts'
import { timesOf } from '../../observe/status-service-port.ts'
import {
  type ControlDeps,
  type Handler,
  needsUserspace,
  Refusal,
  takeEffect,
} from './carry-out.ts'
import { namedServicePorts, shortName } from './named-service-ports.ts'

export const pause: Handler<'pause'> = (deps, { routes, reset, forMs }) =>
  change(deps, routes, names => {
    deps.orders.give(
      names.map(name => ({ kind: 'pause', name, endpoint: '', reset })),
      forMs,
    )
    for (const name of names)
      deps.log.info({ route: shortName(name), reset, forMs }, 'paused by order')
  })

export const resume: Handler<'resume'> = (deps, { routes }) =>
  change(deps, routes, names => {
    for (const name of names)
      if (deps.orders.withdraw([{ kind: 'pause', name, endpoint: '' }]) > 0)
        deps.log.info({ route: shortName(name) }, 'resumed by order')
  })

/** Changes each ServicePort that is meant, or none; answers when that is in effect. */
const change = async (
  deps: ControlDeps,
  routes: readonly string[],
  make: (names: readonly string[]) => void,
): Promise<AnswerOf<'pause'>> => {
  needsUserspace(deps, 'none can be made to wait')
  const { orders, reconciler } = deps
  const named = namedServicePorts(reconciler.snapshots(), routes)
  const { names, notes, unknown, notTcp } = named
  if (unknown !== undefined) throw new Refusal(404, 'UNKNOWN_ROUTE', unknown)
  if (notTcp !== undefined) throw new Refusal(409, 'NOT_TCP', notTcp)
  const before = new Set(names.filter(name => orders.get('pause', name)))
  make(names)
  await takeEffect(deps)
  return {
    routes: names.map(name => {
      const now = orders.get('pause', name)
      return {
        route: shortName(name),
        wasPaused: before.has(name),
        paused: now ? timesOf(now) : null,
      }
    }),
    notes,
  }
}
