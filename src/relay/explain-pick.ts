import { rankOf } from '../balance/balancer.ts'
import { isCoolingDown } from '../balance/cooldown.ts'
import { isAmongAny } from '../util/address-ranges.ts'
import { addressWords } from '../util/cidr.ts'
import { clientKey } from './client-table.ts'
import type { EndpointCapacity } from './endpoint-capacity.ts'
import type {
  EndpointView,
  Explanation,
  ExplainQuery,
  WorkerView,
} from './explanation.ts'
import type { Choice, Front, Backend } from './front.ts'
import type { ListenerEndpoints } from './listener-endpoints.ts'
import { bindKey, type Bind, type BindState } from './relay.ts'

/**
 * What a client that came now would meet: found out by what connections go by, and in their order, so that
 * nothing is changed for them (see `EndpointCapacity.likely`). As of one worker.
 */
export const explainPick = <B extends Backend>(
  state: ListenerEndpoints<B>,
  thread: number,
  { bind, client, dialled }: ExplainQuery,
): Explanation => {
  const front = state.fronts.at(bindKey(bind))
  const choice = front?.admit(client, dialled)
  const view: WorkerView = {
    thread,
    mayCome: true,
    ...outcomeOf(state, front, choice, client),
    affinity: state.balancer.affinityOf(client),
    endpoints: endpointViews(state, choice),
  }
  return { closed: '', by: state.balancer.by, workers: [view] }
}

type Outcome = Pick<WorkerView, 'outcome' | 'reason' | 'waitMs' | 'candidates'>

const outcomeOf = <B extends Backend>(
  state: ListenerEndpoints<B>,
  front: Front<B> | undefined,
  choice: Choice<B> | undefined,
  client: string,
): Outcome => {
  const { limiter, paused, capacity, probers } = state
  const words = addressWords(client) ?? []
  if (probers !== undefined && isAmongAny(probers, words)) return refused('prober')
  if (front?.letsInFrom(client) !== true) return refused('not allowed')
  if (choice === undefined) return refused('no endpoint')
  const broken = limiter?.wouldBreak(clientKey(words), state.now)
  if (broken !== undefined) return refused(broken)
  if (paused) return waits(state, 'paused')
  if (capacity.hasQueued) return queues(capacity, 'queue')
  const likely = capacity.likely(client, choice.among)
  if (likely === 'full') return queues(capacity, 'full')
  if (likely.length === 0) return waits(state, 'no endpoint')
  const candidates = likely.map(({ key }) => key)
  return { outcome: 'served', reason: '', waitMs: 0, candidates }
}

const refused = (reason: WorkerView['reason']): Outcome => ({
  outcome: 'refused',
  reason,
  waitMs: 0,
  candidates: [],
})

const waits = (
  { holdMs, mayHold }: Pick<ListenerEndpoints<Backend>, 'holdMs' | 'mayHold'>,
  reason: WorkerView['reason'],
): Outcome => waiting('waits', reason, holdMs, mayHold)

const queues = (
  { queueMs, mayQueue }: Pick<EndpointCapacity<Backend>, 'queueMs' | 'mayQueue'>,
  reason: WorkerView['reason'],
): Outcome => waiting('queues', reason, queueMs, mayQueue)

/** Who may not wait is refused, and who is one too many to wait. */
const waiting = (
  outcome: 'waits' | 'queues',
  reason: WorkerView['reason'],
  waitMs: number,
  hasRoom: boolean,
): Outcome => {
  if (waitMs <= 0) return refused(reason)
  return hasRoom ? { outcome, reason, waitMs, candidates: [] } : refused('too many wait')
}

const endpointViews = <B extends Backend>(
  state: ListenerEndpoints<B>,
  choice: Choice<B> | undefined,
): readonly EndpointView[] => {
  const { balancer, capacity, now } = state
  // Of nobody in particular: whoever has no affinity.
  const found = choice === undefined ? [] : capacity.likely('', choice.among)
  const [likely] = found === 'full' ? [] : found
  const isLastResort = likely !== undefined && balancer.isCoolingDown(likely)
  const againstOf = (one: B): EndpointView['against'] => {
    if (!balancer.has(one.key)) return 'drained'
    if (choice?.has(one.key) !== true) return 'other clients'
    if (balancer.isFull(one)) return 'full'
    if (!isLastResort && balancer.isCoolingDown(one)) return 'cooling down'
    if (likely !== undefined && rankOf(one) <= rankOf(likely)) return ''
    return one.weight === 0 ? 'weight' : 'tier'
  }
  return state.listed.map(one => {
    const { key, connections = 0, tier = 0, weight = 1, lastFailure } = one
    const cooldown = one.cooldown.read()
    return {
      key,
      against: againstOf(one),
      cooldownMs: isCoolingDown(cooldown, now) ? cooldown.until - now : 0,
      failures: cooldown.failures,
      isProbed: cooldown.isProbed && isCoolingDown(cooldown, now),
      lastFailure: lastFailure && {
        reason: lastFailure.reason,
        agoMs: now - lastFailure.at,
      },
      connections,
      tier,
      weight,
    }
  })
}

/** '' where an address is listened on; else why it is not. */
export const closedReason = (states: readonly BindState[], bind: Bind): string => {
  const found = states.find(one => bindKey(one.bind) === bindKey(bind))
  switch (found?.state) {
    case 'listening':
      return ''
    case 'closed':
      return found.reason
    case 'failed':
      return found.error
    case 'binding':
    case undefined:
    default:
      return 'not listened on yet'
  }
}
