import type { AnswerOf } from '../../observe/control-protocol.ts'
import { causeText } from '../../relay/cause.ts'
import type { EndedConnection } from '../../relay/ended-connections.ts'
import { noAnswer } from '../../relay/questions.ts'
import { type Handler, needsRelay, Refusal } from './carry-out.ts'
import { meantBy, shortName } from './named-service-ports.ts'
import { relayedOf } from './relayed.ts'

export const ended: Handler<'ended'> = async (deps, request) => {
  needsRelay(deps, unseen)
  const { routes, after, failed, clients = [], perSecond, limit } = request
  const meant = meantBy(deps.reconciler.snapshots(), routes)
  const { listeners, notes } = relayedOf(deps, meant, unseen)
  const query = { routes, listeners, after, failed, clients, perSecond, limit }
  const page = (await deps.relay()?.ask('ended', query)) ?? noAnswer.ended
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

const unseen = 'Usher does not see them end'

const tooMany =
  'others look at connections as they end, each at different ones, and there is no room for one more; wait until they have not looked for 3 s, or look at the same as one of them'

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
