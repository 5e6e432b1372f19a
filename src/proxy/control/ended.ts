import type { ServicePort } from '../../model/snapshot.ts'
import type { AnswerOf } from '../../observe/control-protocol.ts'
import { causeText } from '../../relay/cause.ts'
import type { EndedConnection } from '../../relay/ended-connections.ts'
import { noAnswer } from '../../relay/questions.ts'
import {
  type ControlDeps,
  type Handler,
  needsRelay,
  needsUserspace,
  Refusal,
} from './carry-out.ts'
import { meantBy, shortName } from './named-service-ports.ts'

export const ended: Handler<'ended'> = async (deps, request) => {
  needsRelay(deps, unseen)
  const { routes, after, failed, clients = [], perSecond, limit } = request
  const meant = meantBy(deps.reconciler.snapshots(), routes)
  const tcp = namesOf(meant.filter(({ protocol }) => protocol === 'TCP'))
  const others = namesOf(meant.filter(({ protocol }) => protocol !== 'TCP'))
  const kernels = carriedByKernel(deps)
  const listeners = tcp.filter(name => !kernels.has(name))
  const unheard = tcp.filter(name => kernels.has(name))
  if (listeners.length === 0 && unheard.length > 0) needsUserspace(deps, unseen)
  const query = { routes, listeners, after, failed, clients, perSecond, limit }
  const page = (await deps.relay()?.ask('ended', query)) ?? noAnswer.ended
  if (page.isFull) throw new Refusal(503, 'TOO_MANY', tooMany)
  return {
    connections: page.ended.map(endedStatus),
    leftOut: page.leftOut,
    gap: page.gap,
    notes: [
      ...others.map(name => `${shortName(name)}: only TCP connections are told of`),
      ...unheard.map(
        name => `${shortName(name)}: the kernel forwards its connections, and ${unseen}`,
      ),
    ],
    // While there is no data plane: who asks again is told of what is lost by then.
    next: page.next || (after ?? ''),
  }
}

const unseen = 'Usher does not see them end'

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
