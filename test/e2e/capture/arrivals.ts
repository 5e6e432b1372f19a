import type { Protocol } from '../../../src/model/service.ts'
import type { Agents } from '../../support/net/cluster-agents.ts'
import type { Outcome } from '../../support/net/outcome.ts'
import { families } from './objects.ts'
import { serviceNamed } from './services.ts'
import { vipOf } from './vips.ts'

/** SYNs are sent again after 1 s: whatever takes as long as this meets some of those. */
const everyMs = 300

/**
 * One client after another, each with all the patience, until the function that it gives is
 * called: it waits for them, and says what became of those that got no answer.
 */
export const arrivals = (
  agents: Agents,
  patienceMs: number,
  protocols: readonly Protocol[],
): (() => Promise<{ readonly count: number; readonly failures: readonly string[] }>) => {
  const outcomes: Promise<string>[] = []
  const arrive = (): void => {
    for (const from of ['node', 'pod-1', 'outside'] as const)
      for (const family of families)
        for (const protocol of protocols) {
          const to = { protocol, ...vipOf['external IP'](serviceNamed('plain'), family) }
          const words = (outcome: Outcome): string => {
            const { result, ms } = outcome
            if (result === 'answer') return ''
            return `${result} after ${ms} ms: ${protocol} ${family} from ${from}`
          }
          outcomes.push(agents[from].dial(to, patienceMs).then(words))
        }
  }
  const timer = setInterval(arrive, everyMs)
  return async () => {
    clearInterval(timer)
    const all = await Promise.all(outcomes)
    return { count: all.length, failures: all.filter(line => line !== '') }
  }
}
