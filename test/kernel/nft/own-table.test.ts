import t from 'tap'
import { ElementChanges } from '../../../src/kernel/elements/element-changes.ts'
import { OwnTable } from '../../../src/kernel/nft/own-table.ts'
import { type RunTool, ToolError } from '../../../src/kernel/run-tool.ts'

const tooLong = () =>
  new ToolError(
    'nft -f -: failed',
    'failed',
    'netlink: Error: Could not process rule: Message too long',
  )

/** Keeps what it is given; more than this many characters are too long. */
const recorder = (most = Infinity) => {
  const inputs: string[] = []
  const run: RunTool = async (_command, _args, options) => {
    const input = options?.input ?? ''
    if (input.length > most) throw tooLong()
    inputs.push(input)
    return ''
  }
  return { inputs, run }
}

const stampsOf = (inputs: readonly string[]): string[] =>
  inputs.flatMap(
    input => /add element ip t stamp \{ (0x[\da-f]{8}) \}\n$/.exec(input)?.[1] ?? [],
  )

t.test('a change is one transaction, with a stamp at its end', async t => {
  const { inputs, run } = recorder()
  const table = new OwnTable(run, 'ip t')
  t.notOk(table.isPlaced)
  await table.write(['one\n', 'two\n'])
  t.match(inputs[0], /^one\ntwo\nflush set ip t stamp\nadd element ip t stamp /)
  t.ok(table.isPlaced)
  const [stamp = ''] = stampsOf(inputs)
  t.ok(table.isOwn(stamp))
  t.notOk(table.isOwn(stamp), 'once: a backup may bring it back')
})

t.test('what is too long for one goes in small ones, in order, each its own', async t => {
  const { inputs, run } = recorder(90_000)
  const table = new OwnTable(run, 'ip t')
  const lines = Array.from({ length: 600 }, (_, n) => `${n} ${'x'.repeat(40_000)}\n`)
  await table.write([...lines, `last ${'x'.repeat(80_000)}\n`, 'end\n'])
  const text = inputs.map(input => input.replace(/flush set ip t stamp\n.*\n$/, ''))
  t.equal(
    text.join('').replaceAll(/ x+/g, ''),
    `${[...lines.keys()].join('\n')}\nlast\nend\n`,
  )
  const stamps = stampsOf(inputs)
  t.equal(stamps.length, inputs.length)
  t.ok(stamps.length > 300)
  // A monitor may be that far behind.
  t.same(
    stamps.filter(stamp => !table.isOwn(stamp)),
    [],
    'none is a change by others',
  )
})

t.test('a part that no transaction takes is an error', async t => {
  const { run } = recorder(1000)
  const table = new OwnTable(run, 'ip t')
  await t.rejects(table.write(['x'.repeat(2000)]), ToolError)
  t.notOk(table.isPlaced)
})

t.test('who watches can tell what was changed', async t => {
  const { run } = recorder()
  let fails = false
  const failing: RunTool = (...call) =>
    fails ? Promise.reject(new ToolError('no', 'failed', 'no')) : run(...call)
  const table = new OwnTable(failing, 'ip t')
  let changes = 0
  const stop = table.onChange(() => void (changes += 1))
  const grown = new ElementChanges()
  grown.come({ set: 'a', key: '1', value: '' })
  grown.come({ set: 'a', key: '2', value: '' })
  await table.write(['x\n'], { elements: grown, isWhole: true })
  const { era, writes } = table
  t.equal(changes, 1)
  t.same([...table.sizes], [['a', 2]])
  const less = new ElementChanges()
  less.gone({ set: 'a', key: '1', value: '' })
  less.gone({ set: 'a', key: '2', value: '' })
  less.come({ set: 'a', key: '2', value: 'other' })
  await table.write(['x\n'], { elements: less, isElementsOnly: true })
  t.same([...table.sizes], [['a', 1]])
  t.equal(changes, 1, 'elements alone are no change of chains')
  t.equal(table.era, era)
  t.not(table.writes, writes)
  fails = true
  await t.rejects(table.write(['x\n'], { elements: grown }))
  t.notOk(table.isPlaced)
  t.same([...table.sizes], [['a', 1]])
  fails = false
  await table.write(['x\n'], { elements: grown, isWhole: true })
  t.same([...table.sizes], [['a', 2]], 'made anew, it has what was put in')
  stop()
  await table.write(['x\n'])
  t.equal(changes, 2)
})
