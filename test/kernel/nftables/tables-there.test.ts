import t from 'tap'
import { tableThere } from '../../../src/kernel/nftables/tables-there.ts'
import { type RunTool, ToolError } from '../../../src/kernel/run-tool.ts'

const there = (text: string) =>
  tableThere(async () => `table ip t {\n${text}}\n`, 'ip t', new Set(['cluster-ips']), [])

t.test('what is in a table of this layout is told by kind and name', async t => {
  const text = `\tset cluster-ips {\n\t}\n\n\tset affinity-x {\n\t}\n\n\tchain a {\n\t\tip saddr 1.2.3.4 drop\n\t}\n`
  t.same(await there(text), [
    { kind: 'set', name: 'affinity-x' },
    { kind: 'chain', name: 'a' },
  ])
  t.same(await there(''), [])
})

t.test('what this layout has not makes a table strange', async t => {
  for (const line of ['set other', 'map endpoints-tcp', 'counter c', 'flowtable f'])
    t.equal(await there(`\t${line} {\n\t}\n`), 'strange', line)
})

t.test('no table is none, and what can not be read is an error', async t => {
  const failing =
    (stderr: string): RunTool =>
    () =>
      Promise.reject(new ToolError(stderr, 'failed', stderr))
  const none = failing('Error: No such file or directory; did you mean table x')
  t.equal(await tableThere(none, 'ip t', new Set(), []), 'none')
  await t.rejects(tableThere(failing('no memory'), 'ip t', new Set(), []), /no memory/)
})
