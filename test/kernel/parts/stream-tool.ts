import type { Test } from 'tap'
import { streamTool } from '../../../src/kernel/stream-tool.ts'

export const streamToolTests = (t: Test): void => {
  t.test('a tool is heard line by line, its last one too', async t => {
    const lines: string[] = []
    const input = 'one\ntwo\n\nthree'
    await streamTool('cat', [], line => lines.push(line), { input })
    t.same(lines, ['one', 'two', '', 'three'])
  })

  t.test('a tool that writes much does not keep others waiting', async t => {
    let [lines, turns, most, inTurn] = [0, 0, 0, 0]
    const timer = setInterval(() => {
      turns += 1
      most = Math.max(most, inTurn)
      inTurn = 0
    }, 1)
    t.teardown(() => clearInterval(timer))
    await streamTool('seq', ['1000000', '1800000'], () => {
      lines += 1
      inTurn += 1
    })
    t.equal(lines, 800_001)
    t.ok(turns > 10 && most < 400_000, `${turns} turns, ${most} lines in one`)
  })

  t.test('why a tool did not do it is told apart', async t => {
    const fails = (script: string, options = {}) =>
      streamTool('sh', ['-c', script], () => {}, options)
    await t.rejects(
      streamTool('usher-has-no-such-tool', [], () => {}),
      { name: 'ToolError', failure: 'missing' },
    )
    await t.rejects(fails('echo more >&2; exit 3'), {
      failure: 'failed',
      stderr: 'more\n',
      message: /more \(exit code 3\)/,
    })
    await t.rejects(fails('echo Operation not permitted >&2; exit 1'), {
      message: /Operation not permitted/,
      failure: 'not permitted',
    })
    await t.rejects(fails('exec sleep 20', { timeoutMs: 50 }), {
      message: /50 ms/,
      failure: 'timeout',
    })
  })
}
