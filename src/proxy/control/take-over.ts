import { messageOf } from '../../util/usher-error.ts'
import { type ControlDeps, type Handler, Refusal } from './carry-out.ts'

/** Another Usher takes this one's place. Until it has what it needs all is as before. */
export const takeOver: Handler<'take-over'> = async (
  deps,
  { pid, version, begin, hasRelay },
) => {
  const capture = deps.capture()
  const orders = deps.orders.all()
  const own = {
    version: deps.options.version,
    pid: process.pid,
    args: process.argv.slice(2),
    directory: process.cwd(),
    watchdogMs: deps.watchdogMs ?? null,
    capture,
    orders,
  }
  if (!begin) return { ...own, name: '', token: '', refused: '' }
  const relay = deps.relay()
  const by = { pid, version, connections: 0, staying: {} }
  if (relay === undefined || !hasRelay) {
    await deps.mode.lend()
    const refused = relay === undefined ? '' : 'the new one has no relay that takes over'
    deps.replaced({ ...by, refused })
    return { ...own, name: '', token: '', refused }
  }
  const place = await relay.handOver().catch((error: unknown) => {
    throw new Refusal(409, 'NOT_NOW', messageOf(error))
  })
  // Before it listens it has to know its proxy ports, which is a matter of who changes the host. Not of
  // one that is refused as another has come before it: that one has the host's turn.
  await deps.mode.lend()
  const { refused } = place
  if (refused !== '') deps.replaced({ ...by, refused })
  else {
    deps.log.info({ pid, version }, 'another Usher is taking over')
    void relay.handedOver().then(
      over => deps.replaced({ ...by, ...over, pid }),
      (error: unknown) => notTakenOver(deps, pid, error),
    )
  }
  return { ...own, ...place }
}

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
