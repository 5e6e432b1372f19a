import {
  benchProgram,
  callsTo,
  type Child,
  type Remote,
  startChild,
} from '../process/child.ts'
import { type Looks, looks, type Probed } from './looks.ts'
import type { Place } from './topology.ts'

/** Longer than any of it takes; a process takes a moment to start. */
const patienceMs = 300_000

export interface Wait {
  /** Milliseconds. */
  readonly within: number
  /** Aborted when there is nothing to wait for any more. */
  readonly ended: AbortSignal
}

type In = Pick<Place, 'enter'>

/**
 * Waits until clients in `place` are served at all of `addresses`: '' when they are, else
 * why not, as the end of a sentence about the one who serves.
 */
export const awaitServing = async (
  place: In,
  addresses: readonly Probed[],
  { within, ended }: Wait,
): Promise<string> => {
  const over = new Promise<'ended'>(resolve => {
    ended.addEventListener('abort', () => resolve('ended'), { once: true })
    if (ended.aborted) resolve('ended')
  })
  const late = await lookIn(
    place,
    ({ notServing }) => Promise.race([over, notServing(addresses, within)]),
    ended,
  )
  if (late === 'ended') return late
  if (late.length === 0) return ''
  const names = late.slice(0, 5).join(', ')
  const more = late.length > 5 ? ` and ${late.length - 5} more` : ''
  return `did not serve ${names}${more} within ${within} ms`
}

/** So many ports of `address` that are free in `place`. Rejects when there are fewer. */
export const freePorts = (
  place: In,
  address: string,
  count: number,
): Promise<readonly number[]> => lookIn(place, look => look.freePorts(address, count))

/** What is written at `url`, as seen from `place`, without white space around it. */
export const pageIn = (place: In, url: string): Promise<string> =>
  lookIn(place, look => look.page(url))

/** Tries from `place` whether there is a way to all of `addresses`; gives those without. */
export const unreachable = (
  place: In,
  addresses: readonly string[],
): Promise<readonly string[]> => lookIn(place, look => look.unreachable(addresses))

/** By a process that enters the place, where that isn't this process' own. */
const lookIn = async <T>(
  { enter }: In,
  ask: (look: Remote<Looks>) => Promise<T>,
  ended?: AbortSignal,
): Promise<T> => {
  if (enter.length === 0) return ask(looks(ended))
  const child = startChild(benchProgram('topology/probe-main'), enter)
  try {
    return await ask(callsTo<Looks>({ ask: unheard(child) }, patienceMs))
  } finally {
    await child.stop()
  }
}

/** Stopped before it has answered it rejects, which may not be read any more. */
const unheard =
  (child: Child): Child['ask'] =>
  (question, timeoutMs) => {
    const answer = child.ask(question, timeoutMs)
    answer.catch(() => undefined)
    return answer
  }
