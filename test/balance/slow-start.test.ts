import t from 'tap'
import { Balancer } from '../../src/balance/balancer.ts'
import { type Cell, OwnCell } from '../../src/balance/cell.ts'
import {
  noCooldown,
  type Cooldown,
  noRecovery,
  type Recovery,
  shareOf,
} from '../../src/balance/cooldown.ts'

interface Target {
  readonly key: string
  readonly cooldown: Cell<Cooldown>
  readonly recovery: Cell<Recovery>
}

const target = (key: string): Target => ({
  key,
  cooldown: new OwnCell(noCooldown),
  recovery: new OwnCell(noRecovery),
})

const setUp = (slowStartMs = 20_000) => {
  const clock = { time: 1000, now: () => clock.time }
  const balancer = new Balancer<Target>(clock, () => 0)
  const [a, b] = [target('a'), target('b')]
  balancer.setBalance('round-robin', slowStartMs)
  balancer.setEndpoints([a, b])
  const shareOfB = (picks = 110): number => {
    let found = 0
    for (let i = 0; i < picks; i += 1) if (balancer.pick('')?.key === 'b') found += 1
    return found / picks
  }
  return { clock, balancer, a, b, shareOfB }
}

t.test('at the start all have their share', async t => {
  const { shareOfB } = setUp()
  t.equal(shareOfB(), 0.5)
})

t.test('one that was down for long comes back by and by', async t => {
  const { clock, balancer, b, shareOfB } = setUp()
  balancer.failed(b, 1000)
  clock.time += 6000
  balancer.failed(b, 1000)
  clock.time += 6000
  balancer.served(b)
  t.ok(Math.abs(shareOfB() - 0.1 / 1.1) < 0.01, `${shareOfB()}`)
  clock.time += 10_000
  t.ok(Math.abs(shareOfB(300) - 0.5 / 1.5) < 0.01)
  clock.time += 10_000
  t.ok(Math.abs(shareOfB() - 0.5) < 0.01)
})

t.test('one that was down for a moment has its share at once', async t => {
  const { clock, balancer, b, shareOfB } = setUp()
  balancer.failed(b, 1000)
  clock.time += 2000
  balancer.served(b)
  t.ok(Math.abs(shareOfB() - 0.5) < 0.01)
})

t.test('one that is new beside others begins with a tenth', async t => {
  const { clock, balancer, a, b, shareOfB } = setUp()
  balancer.setEndpoints([a])
  clock.time += 10_000
  balancer.setEndpoints([a, b])
  t.ok(Math.abs(shareOfB() - 0.1 / 1.1) < 0.01)
  clock.time += 20_000
  balancer.setEndpoints([a, b])
  t.ok(Math.abs(shareOfB() - 0.5) < 0.01, 'and is not new once more')
})

t.test('one that a check had out for a moment has its share at once', async t => {
  const { clock, balancer, a, b, shareOfB } = setUp()
  clock.time += 60_000
  balancer.setEndpoints([a])
  clock.time += 9_999
  balancer.setEndpoints([a, b])
  t.ok(Math.abs(shareOfB() - 0.5) < 0.01)
  balancer.setEndpoints([a])
  clock.time += 10_000
  balancer.setEndpoints([a, b])
  t.ok(Math.abs(shareOfB() - 0.1 / 1.1) < 0.01, 'and not after long')
})

t.test(
  'one that a check had out in the middle of its slow start goes on with it',
  async t => {
    const { clock, balancer, a, shareOfB } = setUp()
    clock.time += 60_000
    balancer.setEndpoints([a])
    clock.time += 10_000
    balancer.setEndpoints([a, target('b')])
    clock.time += 2000
    balancer.setEndpoints([a])
    clock.time += 1000
    // Its place is another one's by then: of its own nothing is known there.
    balancer.setEndpoints([a, target('b')])
    t.ok(Math.abs(shareOfB(300) - 0.15 / 1.15) < 0.02, `${shareOfB(300)}`)
  },
)

t.test(
  'one that had failed before a check had it out is back with its return',
  async t => {
    const { clock, balancer, a, b, shareOfB } = setUp()
    clock.time += 60_000
    balancer.failed(b, 1000)
    balancer.setEndpoints([a])
    clock.time += 1000
    const again = target('b')
    balancer.setEndpoints([a, again])
    clock.time += 60_000
    balancer.failed(again, 1000)
    clock.time += 2000
    balancer.served(again)
    t.ok(
      Math.abs(shareOfB() - 0.5) < 0.01,
      'a failure of a moment later on is one of a moment',
    )
  },
)

t.test('at the start checks find one after the other: none is new by that', async t => {
  const { clock, balancer, a, b, shareOfB } = setUp()
  balancer.setEndpoints([])
  balancer.setEndpoints([a])
  clock.time += 9000
  balancer.setEndpoints([a, b])
  t.ok(Math.abs(shareOfB() - 0.5) < 0.01)
})

t.test('shares grow in a line', async t => {
  const shares = [0, 1000, 5000, 9999, 10_000, 1e9].map(ms =>
    shareOf({ since: 1, isUp: true }, 1 + ms, 10_000),
  )
  t.strictSame(shares, [0.1, 0.1, 0.5, 0.9999, 1, 1])
  t.equal(shareOf(noRecovery, 5, 10_000), 1)
  t.equal(shareOf({ since: 3, isUp: false }, 5, 10_000), 1, 'its rest keeps it off')
})
