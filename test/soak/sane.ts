import type { SoakReport } from './soak.ts'
import { leak } from './vital-signs.ts'

const mostWorkers = 4

/** Beyond what was there when it was warm. Compiled code and the allocator's arenas grow. */
const mostGrowth = { held: 6e6, rss: 48e6 }

/** Of each kind of failure. */
const mostTold = 10

/** What must not have happened, one a line; none when all is well. */
export const checkSoak = (report: SoakReport): readonly string[] => {
  const { visits, udpVisits, changes, wrong, failed, before, after } = report
  return [
    ...some(wrong),
    ...some(failed),
    ...(visits > 0 && udpVisits > 0 && changes > 0 ? [] : ['nothing was tried']),
    ...[leak(before.open, after.open, mostWorkers)].filter(text => text !== ''),
    ...(['held', 'rss'] as const)
      .filter(what => after[what] - before[what] > mostGrowth[what])
      .map(what => `memory (${what}) grew from ${before[what]} to ${after[what]} bytes`),
  ]
}

/** One cause may have failed them all. */
const some = (texts: readonly string[]): readonly string[] =>
  texts.length > mostTold
    ? [...texts.slice(0, mostTold), `and ${texts.length - mostTold} more`]
    : texts
