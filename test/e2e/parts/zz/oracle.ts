import type { Protocol } from '../../../../src/model/service.ts'
import type { BackendName, HostName } from '../../../support/zznet/addresses.ts'
import type { Outcome, Result } from '../../../support/zznet/outcome.ts'
import type { VipName } from './vips.ts'
import type { TestService } from './services.ts'

/** Captures with rules can be silent; `local` can't. */
export type Manner = 'rules' | 'local'

export type Expected =
  | { readonly result: 'answer'; readonly from: readonly BackendName[] }
  | { readonly result: Exclude<Result, 'answer'> }

export interface Question {
  readonly service: TestService
  readonly vip: VipName
  readonly from: HostName
  readonly protocol: Protocol
}

/**
 * What a client must meet, from Kubernetes' documentation alone: shares no code with what
 * it judges.
 */
export const expected = (question: Question, manner: Manner): Expected => {
  const { service, vip, from } = question
  if (vip === 'unknown port') return refused
  if (vip === 'load-balancer IP' && service.byProxy) return silence
  if (!isAllowed(question)) return dropped(question, manner)
  const { backends } = service
  if (backends.length === 0) return refused
  const policy = vip === 'ClusterIP' ? service.internal : externalPolicy(service, from)
  const usable = policy === 'Cluster' ? backends : backends.filter(isOnNode)
  return usable.length === 0
    ? dropped(question, manner)
    : { result: 'answer', from: usable }
}

const refused: Expected = { result: 'refused' }
const silence: Expected = { result: 'timeout' }

const isOnNode = (backend: BackendName): boolean => backend !== 'backend-3'

/** Who is on the node already gets the endpoints of the cluster. */
const externalPolicy = ({ external }: TestService, from: HostName) =>
  from === 'outside' ? external : 'Cluster'

const isAllowed = ({ service: { allowed }, vip, from }: Question): boolean => {
  if (vip !== 'load-balancer IP' || allowed === undefined) return true
  if (from === 'outside' || from === 'node') return allowed === from
  return allowed === 'pods'
}

/**
 * Without rules an address that is closed to everybody is not listened on, and one that is
 * open to some takes a connection before it can look whose it is.
 */
const dropped = ({ vip, protocol }: Question, manner: Manner): Expected => {
  if (manner === 'rules') return silence
  if (vip === 'ClusterIP') return refused
  return protocol === 'TCP' ? { result: 'reset' } : silence
}

/** Undefined when the outcome is what was expected. */
export const fault = (
  question: Question,
  manner: Manner,
  outcome: Outcome,
): string | undefined => {
  const wanted = expected(question, manner)
  if (wanted.result === 'answer') {
    const names = wanted.from.join(' or ')
    if (outcome.result !== 'answer') return `expected ${names}, got ${said(outcome)}`
    if (wanted.from.some(name => name === outcome.backend)) return undefined
    return `expected ${names}, got ${outcome.backend}`
  }
  const { result } = outcome
  // A process of the node is told by its own kernel that its datagram was dropped.
  const heard = result === 'blocked' && question.from === 'node' ? 'timeout' : result
  return heard === wanted.result
    ? undefined
    : `expected ${wanted.result}, got ${said(outcome)}`
}

const said = ({ result, backend, ms }: Outcome): string =>
  `${result}${backend === '' ? '' : ` of ${backend}`} after ${ms} ms`
