import t from 'tap'
import type { Monitor, MonitorListener } from '../../../src/kernel/nft/monitor.ts'
import { listedSizes, OwnTable } from '../../../src/kernel/nft/own-table.ts'
import { watchTable } from '../../../src/kernel/nft/table-watch.ts'
import { type RunTool, ToolError } from '../../../src/kernel/run-tool.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import { until } from '../../support/until.ts'

t.test('nftables: elements and rules of a listing are counted', async t => {
  const text = `table ip usher {
	map vips {
		comment "a, b"
		type ipv4_addr . inet_service : ipv4_addr
		elements = { 10.96.0.1 . 80 : 1.1.1.1, 10.96.0.2 . 80 : 1.1.1.1,
			     10.96.0.3 . 80 : 1.1.1.1 }
	}

	set empty {
		type ipv4_addr
	}

	chain a {
		comment "a chain"
		type filter hook input priority filter; policy accept;
		meta l4proto { tcp, udp } drop
		 counter packets 0 bytes 0 return
		comment "of a rule" drop
	}
}
`
  t.same(
    [...(await listedSizes(text))],
    [
      ['vips', 3],
      ['empty', 0],
      ['chain a', 3],
    ],
  )
})

for (const [what, writes, told] of [
  ['its owner writes', true, []],
  ['nobody writes', false, ['ended after 10000 ms']],
] as const)
  t.test(`nftables: a listing that does not end while ${what}`, async t => {
    const clock = new FakeClock()
    const limits: unknown[] = []
    const said: string[] = []
    const run: RunTool = async (_, args, options) => {
      if (!args.includes('list')) return ''
      limits.push(options?.timeoutMs)
      if (writes) await own.write([''], { isElementsOnly: true })
      clock.advance(10_000)
      throw new ToolError('ended after 10000 ms', 'failed', '')
    }
    const own = new OwnTable(run, 'ip usher')
    await own.write([''])
    const stop = watchTable(own, {
      run,
      clock,
      monitor: { running: true, listen: () => () => {} } as unknown as Monitor,
      wanted: () => true,
      damaged: each => void said.push(each),
      onBlind: each => void said.push(each),
    })
    t.teardown(stop)
    await until('it has looked', () => limits.length === 1)
    await new Promise(setImmediate)
    t.same(said, told)
    clock.advance(99_999)
    await new Promise(setImmediate)
    t.same(limits, [10_000], 'a look so long is not repeated soon')
    clock.advance(1)
    await until('it looks again', () => limits.length === 2)
  })

t.test('nftables: while the monitor has nothing to say, looks are seldom', async t => {
  const clock = new FakeClock()
  let looks = 0
  let fails = false
  const run: RunTool = async (_, args) => {
    if (args.includes('list')) looks++
    if (fails) throw new ToolError('no', 'failed', '')
    return ''
  }
  const own = new OwnTable(run, 'ip usher')
  await own.write([''])
  let listener: MonitorListener | undefined
  const listen = (one: MonitorListener) => {
    listener = one
    return () => {}
  }
  const stop = watchTable(own, {
    run,
    clock,
    monitor: { running: true, listen } as unknown as Monitor,
    wanted: () => true,
    damaged: () => {},
    onBlind: () => {},
  })
  t.teardown(stop)
  /** How many looks there are in a minute each. */
  const minutes = async (count: number): Promise<number[]> => {
    const found: number[] = []
    for (let i = 0; i < count; i++) {
      const before = looks
      clock.advance(60_000)
      await new Promise(resolve => setTimeout(resolve, 10))
      found.push(looks - before)
    }
    return found
  }
  await new Promise(resolve => setTimeout(resolve, 10))
  t.same([looks, await minutes(6)], [1, [0, 0, 0, 0, 1, 0]])
  listener?.event({ by: 'nft', touched: new Map() })
  t.same(await minutes(2), [1, 0])
  fails = true
  t.same(await minutes(4), [0, 0, 0, 1])
  t.same(await minutes(2), [1, 1], 'what failed is tried again')
})
