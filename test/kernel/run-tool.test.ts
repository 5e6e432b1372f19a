import { closeSync, openSync } from 'node:fs'
import t from 'tap'
import { runTool, streamTool } from '../../src/kernel/run-tool.ts'

/** The soft limit of this process's descriptors; sets it where one is given. */
const limitFiles = async (wanted: string): Promise<string> => {
  const args = ['--pid', String(process.pid), `--nofile${wanted && '='}${wanted}`]
  try {
    return (
      await runTool('prlimit', [...args, '--raw', '--noheadings', '-o', 'SOFT'])
    ).trim()
  } catch {
    return ''
  }
}

t.test('a tool whose output is read as it comes', async t => {
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
    // What Node has no event for: E2BIG here, ENOMEM where there is no memory for a process.
    await t.rejects(fails('x'.repeat(2 ** 20)), {
      name: 'ToolError',
      message: /E2BIG/,
      failure: 'failed',
    })
    await t.rejects(fails('exec sleep 20', { timeoutMs: 50 }), {
      message: /50 ms/,
      failure: 'timeout',
    })
  })

  const streamed = (command: string, args: string[], options = {}): Promise<void> =>
    streamTool(command, args, () => {}, options)

  t.test('a tool that hangs is not waited for, nor are its children', async t => {
    const script = 'trap "" TERM; sleep 3 & wait; sleep 3'
    for (const start of [runTool, streamed]) {
      const began = performance.now()
      const ended: Promise<unknown> = start('sh', ['-c', script], { timeoutMs: 100 })
      await t.rejects(ended, {
        failure: 'timeout',
        message: /100 ms/,
      })
      t.ok(performance.now() - began < 2500, 'before its children end')
    }
  })

  const limits = await limitFiles('')
  const skip = limits === '' && 'there is no prlimit'
  t.test(
    'without a descriptor no tool is started, and that is all',
    { skip },
    async t => {
      await limitFiles('200:')
      t.teardown(() => limitFiles(`${limits}:`))
      const open: number[] = []
      const fill = (): void => {
        for (;;) open.push(openSync('/dev/null', 'r'))
      }
      t.throws(fill, { code: 'EMFILE' })
      const failed = await Promise.allSettled([runTool('true', []), streamed('true', [])])
      for (const fd of open) closeSync(fd)
      for (const one of failed) {
        t.match(one, {
          reason: { name: 'ToolError', message: /can't be started.*EMFILE/ },
        })
      }
    },
  )
})
