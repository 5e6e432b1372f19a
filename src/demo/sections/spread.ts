import { bars, askTogether, failures, shares } from '../tally.ts'
import { askHttp } from '../clients.ts'
import { expectation, type Section } from '../expectation.ts'
import { backendsOf, targetOf, textOfTarget, type Stage } from '../stage.ts'

const requests = 30

/** Requests to `web` are spread over its backends. */
export const spread = async (stage: Stage): Promise<Section> => {
  const target = targetOf(stage, 'web')
  const counted = await askTogether(requests, () => askHttp(target))
  const names = backendsOf(stage, 'web').map(({ name }) => name)
  const counts = names.map(name => ({ name, count: counted.byBackend.get(name) ?? 0 }))
  // Half a fair share: another client may be using the Service at the same time.
  const least = requests / names.length / 2
  return {
    title: 'Requests are spread over the backends',
    lines: [`${requests} requests to http://${textOfTarget(target)}`, ...bars(counts)],
    expectation: expectation(
      'all requests are answered, and every backend has its share',
      [
        [counted.failed > 0, failures(counted, 'requests')],
        [
          names.length < 2,
          `web has ${names.length} backends, there is nothing to spread`,
        ],
        [counts.some(({ count }) => count < least), `the shares are ${shares(counted)}`],
      ],
    ),
  }
}
