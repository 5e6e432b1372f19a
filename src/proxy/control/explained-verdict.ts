import type { AnswerOf } from '../../observe/control-protocol.ts'
import type { Explanation, WorkerView } from '../../relay/explanation.ts'
import type { DialledVip } from './dialled-vip.ts'
import type { ClientTarget } from './client-target.ts'

type Verdict = AnswerOf<'explain'>['verdict']

/** What becomes of the client's connection, whatever endpoint it would get. */
export const explainedVerdict = (
  { placed }: DialledVip,
  { target, by, isOutside }: ClientTarget,
  explanation: Explanation | undefined,
  coming: readonly WorkerView[],
): Verdict => {
  const { verdict } = target
  const isKernel = placed.capture === 'kernel'
  const why = isOutside
    ? 'the client is in none of loadBalancerSourceRanges'
    : verdict === 'drop'
      ? `no endpoint on this node (${by})`
      : verdict === 'reject'
        ? 'no endpoint is ready'
        : by
  if (placed.capture === 'not captured') return { action: 'refuse', why: placed.reason }
  if (isKernel && isOutside) return { action: 'drop', why }
  if (isKernel) return { action: verdict === 'reject' ? 'refuse' : verdict, why }
  if (explanation === undefined)
    return { action: 'refuse', why: 'the relay is not there' }
  if (explanation.closed !== '')
    return {
      action: 'refuse',
      why: isOutside || verdict !== 'forward' ? why : explanation.closed,
    }
  // One worker that serves is enough: the client comes to any.
  const best = coming.find(({ outcome }) => outcome === 'served') ?? coming[0]
  if (best === undefined)
    return { action: 'refuse', why: 'no worker of the relay answers' }
  if (best.outcome === 'served') return { action: 'forward', why }
  const reason = words[best.why] ?? `over the limit ${best.why}`
  const whole =
    best.why === 'not allowed' && isOutside
      ? why
      : best.why === 'no endpoint' && verdict !== 'forward'
        ? why
        : reason
  return { action: best.outcome === 'refused' ? 'refuse' : 'wait', why: whole }
}

const words: Readonly<Record<string, string>> = {
  '': 'nothing is against it',
  'not allowed': 'the client is not in the list of those that may connect',
  'no endpoint': 'no endpoint is left for it',
  paused: 'paused by order',
  full: 'each endpoint has as many connections as it may have',
  queue: 'others wait for a place at an endpoint, and come first',
  'too many wait': 'it would have to wait, and as many clients wait as may',
}
