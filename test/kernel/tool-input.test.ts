import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { runTool } from '../../src/kernel/run-tool.ts'
import { tempDirectory } from '../support/net/temp-directory.ts'
import { typescript } from '../support/typescript.ts'
import { until } from '../support/until.ts'

t.test('a tool gets all of its input, little and much', async t => {
  for (const count of [0, 1, 65_535, 65_536, 65_537, 3_000_000]) {
    const input = 'ü'.repeat(count)
    t.ok((await runTool('cat', [], { input })) === input, `${count} characters`)
  }
  await t.rejects(runTool('false', [], { input: 'x'.repeat(100_000) }))
  await t.rejects(runTool('no-such-tool', [], { input: 'x'.repeat(100_000) }))
})

const program = fileURLToPath(new URL('tool-input-program.ts', import.meta.url))

t.test('a tool never takes a part for the whole when Usher is killed', async t => {
  const directory = await tempDirectory(t)
  const path = join(directory, 'read')
  const child = spawn(process.execPath, [typescript, program, path], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = once(child, 'close')
  await once(child.stdout, 'data')
  child.kill('SIGKILL')
  await ended
  await until('the tool ends', async () => (await readdir(directory)).includes('read'))
  t.equal((await readFile(path)).length, 5_000_000)
})
