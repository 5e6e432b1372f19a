import type { AnswerOf } from '../../observe/control-protocol.ts'
import type { ConnectionsPage, OpenConnection } from '../../relay/open-connections.ts'
import type { Relay } from '../../relay/relay.ts'
import { type ControlDeps, type Handler, needsRelay } from './carry-out.ts'
import { meantBy, shortName } from './named-service-ports.ts'
import { relayedOf } from './relayed.ts'

/** Less than a client waits for; what has been found by then is the answer. */
const longestMs = 8000

const unseen = 'Usher does not see them'

export const connections: Handler<'connections'> = async (deps, { routes, limit }) => {
  needsRelay(deps, unseen)
  const meant = routes && meantBy(deps.reconciler.snapshots(), routes)
  const { listeners, notes } = meant
    ? relayedOf(deps, meant, unseen)
    : { listeners: undefined, notes: othersOf(deps) }
  if (listeners?.length === 0) return { connections: [], left: 0, notes }
  const found: OpenConnection[] = []
  let left = 0
  for await (const page of pages(deps, listeners, () => limit - found.length)) {
    found.push(...page.connections)
    left += page.counted
  }
  return { connections: found.map(connectionStatus), left, notes }
}

export const close: Handler<'close'> = async (deps, { connections: ids }) => {
  needsRelay(deps, 'none can be closed by Usher')
  const closed = new Set(await deps.relay()?.ask('close-connections', ids))
  if (closed.size > 0)
    deps.log.info({ connections: closed.size, first: [...closed][0] }, 'closed by order')
  const all = [...new Set(ids)]
  return { connections: all.map(id => ({ id, closed: closed.has(id) })) }
}

/** What all of them are not, beside a kernel mode. */
const othersOf = ({ mode: { name } }: ControlDeps): readonly string[] =>
  name === 'userspace'
    ? []
    : [`in ${name} mode the kernel forwards connections of other Services, and ${unseen}`]

/** Page by page; beyond `room` only their number. */
async function* pages(
  { clock, relay }: ControlDeps,
  listeners: readonly string[] | undefined,
  room: () => number,
): AsyncGenerator<ConnectionsPage> {
  const from: Pick<Relay, 'ask'> | undefined = relay()
  const until = clock.now() + longestMs
  let after: string | undefined
  do {
    const page = await from?.ask('connections', { listeners, after, limit: room() })
    if (page === undefined) return
    yield page
    after = page.next
  } while (after !== undefined && clock.now() < until)
}

const connectionStatus = (
  connection: OpenConnection,
): AnswerOf<'connections'>['connections'][number] => {
  const { listener, ageMs, idleMs, ...rest } = connection
  const idle = idleMs === undefined ? null : Math.round(idleMs)
  return { ...rest, route: shortName(listener), ageMs: Math.round(ageMs), idleMs: idle }
}
