import type { Endpoint } from './snapshot.ts'

/**
 * Which of a ServicePort's endpoints may get new connections now.
 *
 * Contract: a pure function of its arguments; the result is a part of `endpoints`, the
 * same objects in the same order, and depends on nothing but them. It is empty only
 * when no endpoint can be expected to answer, and then clients are to be refused.
 *
 * The ready ones; when there are none, those that still serve while they terminate, so
 * that a rollout or a drained node does not refuse clients in between (KEP-1669).
 */
export const eligibleEndpoints = (
  endpoints: readonly Endpoint[],
): readonly Endpoint[] => {
  const ready = endpoints.filter(endpoint => endpoint.ready)
  if (ready.length > 0) return ready
  return endpoints.filter(endpoint => endpoint.serving && endpoint.terminating)
}
