import t from 'tap'
import {
  Descriptors,
  newDescriptorsMemory,
} from '../../../../src/relay/engine/shared/descriptors.ts'
import { type Pipe, PipePool } from '../../../../src/relay/engine/tcp/pipe-pool.ts'
import { FdAccount } from '../../../../src/relay/engine/worker/fd-account.ts'
import { linuxRelaySkip } from '../../../support/linux-only.ts'
import { linuxParts } from '../calls-bench.ts'

const workers = 4

t.test(
  'pipes of all workers hold a quarter of the descriptors',
  { skip: linuxRelaySkip() },
  async t => {
    const memory = newDescriptorsMemory(200, 40, workers + 1)
    const { calls } = linuxParts()
    const loop = { closing: () => {} }
    const pools = Array.from({ length: workers }, (_, i) => {
      const descriptors = new Descriptors(memory, i + 1)
      return new PipePool(calls, new FdAccount(calls, loop, descriptors, () => {}))
    })
    const taken = pools.map(pool => {
      const pipes: Pipe[] = []
      for (let pipe = pool.take(); pipe !== undefined; pipe = pool.take())
        pipes.push(pipe)
      return pipes
    })
    const { used } = new Descriptors(memory, 0)
    // Not empty: so none is kept.
    taken.forEach((pipes, i) => pipes.forEach(pipe => pools[i]?.giveBack(pipe, false)))
    t.strictSame(
      taken.map(({ length }) => length),
      [5, 5, 5, 5],
    )
    t.equal(used, 40)
    t.equal(new Descriptors(memory, 0).used, 0)
  },
)
