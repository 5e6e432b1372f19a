import t from 'tap'
import { openFileLimit } from '../../src/relay/fd-limit.ts'
import { setSoftLimit, softLimit } from '../support/descriptors.ts'

const inWords = () => (openFileLimit() === Infinity ? 'unlimited' : `${openFileLimit()}`)

t.test('openFileLimit is the soft limit that a shell of this process has', async t => {
  t.equal(inWords(), softLimit())
  const before = softLimit()
  try {
    setSoftLimit('1000')
  } catch {
    return t.comment('no prlimit to make soft and hard differ with')
  }
  t.teardown(() => setSoftLimit(before))
  t.strictSame([inWords(), softLimit()], ['1000', '1000'])
})
