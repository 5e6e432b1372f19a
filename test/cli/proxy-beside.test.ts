import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import { proxyBeside } from '../../src/cli/cleanup.ts'
import type { NodeProxy } from '../../src/kernel/cleanup/node-proxy.ts'
import { FakeClock } from '../support/fake-clock.ts'
import { keptIo } from '../support/kept-io.ts'

/** Asks for as long as a minute and a second, by a clock of the test's own. */
const beside = async (find: () => NodeProxy | undefined) => {
  const clock = new FakeClock()
  const said: string[] = []
  const say = (text: string): void => void said.push(text)
  const io = { ...keptIo().io, out: say, err: say }
  const state = { isDone: false }
  const asked = proxyBeside(io, { clock, find: async () => find() }).finally(
    () => (state.isDone = true),
  )
  for (let steps = 0; !state.isDone && steps < 61_000 / 250; steps += 1) {
    await setImmediate()
    clock.advance(250)
  }
  return { proxy: await asked, said: said.join(''), waited: clock.now() }
}

t.test('an Usher that drains for longer than a minute is not forgotten', async t => {
  const drains = { mode: 'userspace', usher: 'draining' } as const
  const { proxy, said } = await beside(() => drains)
  t.equal(proxy, drains)
  t.match(said, 'after 60 s')
  t.match(said, 'nothing was removed')
})

t.test('once it has ended, who answers then counts', async t => {
  let looks = 0
  const { proxy, said } = await beside(() => {
    looks += 1
    return looks > 3 ? { mode: 'ipvs' } : { mode: 'userspace', usher: 'draining' }
  })
  t.strictSame(proxy, { mode: 'ipvs' })
  t.equal(
    said,
    'an Usher is ending here; waiting for its connections\n' +
      'a proxy in mode ipvs serves this node: what is its own stays\n',
  )
})

t.test('an Usher that does not drain is no reason to wait', async t => {
  const serves = { mode: 'userspace', usher: 'serving' } as const
  const { proxy, waited } = await beside(() => serves)
  t.equal(proxy, serves)
  t.ok(waited <= 250)
})
