import type { AnswerOf } from '../../observe/control-protocol.ts'
import type { ConnectionsPage, OpenConnection } from '../../relay/open-connections.ts'
import type { Relay } from '../../relay/relay.ts'
import {
  type ControlDeps,
  type Handler,
  needsRelay,
  Refusal,
  needsUserspace,
} from './carry-out.ts'
import { meantBy, shortName } from './named-service-ports.ts'
import { causeText } from '../../relay/cause.ts'
import type { EndedConnection } from '../../relay/ended-connections.ts'
import { emptyResults } from '../../relay/queries.ts'
import type { ServicePort } from '../../model/snapshot.ts'

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
  needsRelay(deps, 'Usher cannot close them')
  const closed = new Set(await deps.relay()?.query('close-connections', ids))
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
  const from: Pick<Relay, 'query'> | undefined = relay()
  const until = clock.now() + longestMs
  let after: string | undefined
  do {
    const page = await from?.query('connections', { listeners, after, limit: room() })
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

export const ended: Handler<'ended'> = async (deps, request) => {
  needsRelay(deps, unseenEnd)
  const { routes, after, failed, clients = [], perSecond, limit } = request
  const meant = meantBy(deps.reconciler.snapshots(), routes)
  const { listeners, notes } = relayedOf(deps, meant, unseenEnd)
  const query = { routes, listeners, after, failed, clients, perSecond, limit }
  const page = (await deps.relay()?.query('ended', query)) ?? emptyResults.ended
  if (page.isFull) throw new Refusal(503, 'TOO_MANY', tooMany)
  return {
    connections: page.ended.map(endedStatus),
    leftOut: page.leftOut,
    gap: page.gap,
    notes,
    // While there is no data plane: who asks again is told of what is lost by then.
    next: page.next || (after ?? ''),
  }
}

const unseenEnd = 'Usher does not see them end'

const tooMany =
  'too many different queries for ended connections are running; wait until one of them has not been repeated for 3 s, or ask for the same connections as one of them'

const endedStatus = ({
  listener,
  endedAt,
  cause,
  attempts,
  ...rest
}: EndedConnection): AnswerOf<'ended'>['connections'][number] => ({
  route: shortName(listener),
  ...rest,
  attempts: attempts.map(one => ({ ...one, ms: toMicroseconds(one.ms) })),
  dialMs: toMicroseconds(rest.dialMs),
  totalMs: toMicroseconds(rest.totalMs),
  endedAt: new Date(endedAt).toISOString(),
  cause,
  causeText: causeText[cause],
})

/** What is finer is noise. */
const toMicroseconds = (ms: number): number => Math.round(ms * 1000) / 1000

interface Relayed {
  readonly listeners: readonly string[]
  /** Of each of the others why it is not told of, in words. */
  readonly notes: readonly string[]
}

/**
 * Names of those whose connections a relay carries; throws where the kernel carries them all.
 * `effect`: what that means.
 */
const relayedOf = (
  deps: ControlDeps,
  servicePorts: readonly ServicePort[],
  effect: string,
): Relayed => {
  const names = namesOf(servicePorts.filter(isTcp))
  const others = namesOf(servicePorts.filter(port => !isTcp(port)))
  const kernels = carriedByKernel(deps)
  const listeners = names.filter(name => !kernels.has(name))
  const unrelayed = names.filter(name => kernels.has(name))
  if (listeners.length === 0 && unrelayed.length > 0) needsUserspace(deps, effect)
  const notes = [
    ...others.map(name => `${shortName(name)}: only TCP connections are told of`),
    ...unrelayed.map(
      name => `${shortName(name)}: the kernel forwards its connections, and ${effect}`,
    ),
  ]
  return { listeners, notes }
}

const isTcp = ({ protocol }: ServicePort): boolean => protocol === 'TCP'

const namesOf = (some: readonly ServicePort[]): readonly string[] => [
  ...new Set(some.map(({ name }) => name)),
]

/** Names of ServicePorts. */
const carriedByKernel = ({ mode }: ControlDeps): ReadonlySet<string> => {
  // Most ask each second.
  if (mode.name === 'userspace') return new Set()
  const carried = mode.placements.filter(({ vips }) =>
    vips.some(({ capture }) => capture === 'kernel'),
  )
  return new Set(namesOf(carried.map(({ servicePort }) => servicePort)))
}
