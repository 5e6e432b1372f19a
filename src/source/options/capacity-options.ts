import * as v from 'valibot'
import type { CapacityOptions } from '../../model/traffic.ts'
import { peek } from '../../util/json.ts'
import { countOf, durationText, msOf, type Given } from './option-kinds.ts'

const longestQueueMs = 3_600_000

/** Where `maxConnections` is given alone. */
const usualQueueMs = 5000
const usualMostQueued = 1024

/** How many connections each endpoint may have. */
export const capacityOptions = {
  maxConnections: v.pipe(
    countOf('connections', 1_000_000, 80),
    v.description(
      'TCP only. How many connections each endpoint may have, over all workers. When all have so many, clients wait.',
    ),
  ),
  queue: v.pipe(
    durationText(0, longestQueueMs, 'from 0s to 1h', '5s'),
    v.description(
      'How long a client waits for a place at an endpoint, first come, first served; 5s by default. Then it is reset (cause `sQ`).',
    ),
  ),
  mostQueued: v.pipe(
    countOf('clients', 65_536, 1024),
    v.description(
      'How many clients wait for a place at most; 1024 by default. The next one is reset.',
    ),
  ),
}

/** Undefined where endpoints have no limit. */
export const decodeCapacity = (
  raw: Given<typeof capacityOptions>,
): CapacityOptions | undefined => {
  const { maxConnections, queue, mostQueued = usualMostQueued } = raw
  if (maxConnections === undefined) return undefined
  return { maxConnections, queueMs: msOf(queue) ?? usualQueueMs, mostQueued }
}

/** Which of the others are given without a limit. Of any object. */
export const queuesNothing = (raw: object): readonly ('queue' | 'mostQueued')[] =>
  (['queue', 'mostQueued'] as const).filter(
    name =>
      v.is(capacityOptions[name], peek(raw, name)) &&
      !Object.hasOwn(raw, 'maxConnections'),
  )
