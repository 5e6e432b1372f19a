// A process of its own: memory is measured.
import t from 'tap'
import { linuxRelaySkip } from '../support/linux-only.ts'
import { relayToSoak } from './relay-to-soak.ts'
import { checkSoak } from './sane.ts'
import { soak } from './soak.ts'

// A slice of `npm run soak`.
const ms = 10_000

const slice = async (test: typeof t, kind: string): Promise<void> => {
  const seed = Date.now() % 1_000_000
  test.comment(`seed ${seed}`)
  const say = (line: string): void => test.comment(line)
  const relay = relayToSoak(kind, '2')
  const report = await soak(test, { relay, seed, ms, mostBytes: 2e6, say })
  test.same(checkSoak(report), [])
  test.ok(report.visits > 100, `${report.visits} connections`)
}

t.test(
  'the Linux relay keeps every byte under changes',
  { skip: linuxRelaySkip() },
  test => slice(test as typeof t, 'linux'),
)
