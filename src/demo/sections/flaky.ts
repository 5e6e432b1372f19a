import { bars, askTogether, failures } from '../tally.ts'
import { askHttp } from '../clients.ts'
import { expectation, type Section } from '../expectation.ts'
import {
  backendsOf,
  servicePortOf,
  targetOf,
  textOfTarget,
  type Stage,
} from '../stage.ts'

const requests = 30

/** One backend of `flaky` is dead: Usher tries another, and clients never notice. */
export const flaky = async (stage: Stage): Promise<Section> => {
  const target = targetOf(stage, 'flaky')
  const retries = async (): Promise<number> => {
    await stage.look()
    return servicePortOf(stage, 'flaky', 'TCP').retries
  }
  const before = await retries()
  const counted = await askTogether(requests, () => askHttp(target))
  const retried = (await retries()) - before
  const backends = backendsOf(stage, 'flaky')
  const dead = backends.filter(one => one.dead).map(({ name }) => name)
  const rows = backends.map(({ name, dead: isDead }) => ({
    name,
    count: counted.byBackend.get(name) ?? 0,
    note: isDead ? 'dead: nothing listens there' : '',
  }))
  return {
    title: 'A dead backend goes unnoticed',
    lines: [
      `${requests} requests to http://${textOfTarget(target)}`,
      ...bars(rows),
      `${counted.failed} failed; Usher retried ${retried === 1 ? 'once' : `${retried} times`} on another backend, then left the dead one out`,
    ],
    expectation: expectation('no request fails, though a backend is dead', [
      [counted.failed > 0, failures(counted, 'requests')],
      [dead.length === 0, 'no backend of flaky is dead, there is nothing to notice'],
      [retried === 0, `Usher counts no retry: does anything listen for ${dead.join()}?`],
    ]),
  }
}
