import type { AnswerOf, ControlCommand } from '../../observe/control-protocol.ts'
import { messageOf } from '../../util/usher-error.ts'
import { type ControlDeps, type Handler, Refusal } from './carry-out.ts'

export interface TakingOver {
  readonly handler: Handler<'take-over'>
  /** What is ordered meanwhile is for the other one, which has been told the orders already. */
  readonly orders: <C extends ControlCommand>(handler: Handler<C>) => Handler<C>
}

/** Another Usher takes this one's place, one at a time. Until it has what it needs all is as before. */
export const takingOver = (): TakingOver => {
  /** That of the process that is taking over. */
  let successor: number | undefined
  const orders: TakingOver['orders'] = handler => async (deps, request) => {
    if (successor === undefined) return handler(deps, request)
    throw notNow(
      `PID ${successor} is taking over; give the order to that one, in a moment`,
    )
  }
  const handler: TakingOver['handler'] = async (
    deps,
    { pid, version, begin, hasRelay },
  ) => {
    const own = describe(deps)
    if (!begin) return own
    // One that can't have what it came for says so once more.
    const isAgain = successor === pid && !hasRelay
    if (successor !== undefined && !isAgain)
      throw notNow(`PID ${successor} is taking over`)
    successor = pid
    // Before it listens it has to know its proxy ports, which is a matter of who changes the host.
    const takeBack = await deps.mode.lend()
    const relay = deps.relay()
    const by = { pid, version, connections: 0, staying: {} }
    if (relay === undefined || !hasRelay) {
      const refused = relay && 'the new one has no relay that takes over'
      deps.replaced({ ...by, refused: refused ?? '' })
      return { ...own, refused: refused ?? '' }
    }
    const serveOn = (error: unknown): void => {
      successor = undefined
      takeBack()
      notTakenOver(deps, pid, error)
    }
    const place = await relay.handOver().catch((error: unknown) => {
      serveOn(error)
      throw notNow(messageOf(error))
    })
    const { refused } = place
    if (refused !== '') deps.replaced({ ...by, refused })
    else {
      deps.log.info({ pid, version }, 'another Usher is taking over')
      void relay
        .handedOver()
        .then(over => deps.replaced({ ...by, ...over, pid }), serveOn)
    }
    return { ...own, ...place, proxyPorts: deps.proxyPorts() }
  }
  return { handler, orders }
}

const notNow = (why: string): Refusal => new Refusal(409, 'NOT_NOW', why)

const describe = (deps: ControlDeps): AnswerOf<'take-over'> => ({
  version: deps.options.version,
  pid: process.pid,
  args: process.argv.slice(2),
  directory: process.cwd(),
  watchdogMs: deps.watchdogMs ?? null,
  capture: deps.capture(),
  proxyPorts: [],
  orders: deps.orders.all(),
  name: '',
  token: '',
  refused: '',
})

const notTakenOver = (
  { log, reconciler }: ControlDeps,
  pid: number,
  error: unknown,
): void => {
  log.warn(
    { pid, why: messageOf(error) },
    'the other Usher has not taken over; this one serves on as before',
  )
  // It had the host's turn, and may have ended amid a change.
  reconciler.resync()
}
