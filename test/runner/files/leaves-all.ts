import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import t from 'tap'
import { makeClusterNet } from '../../support/net/cluster-net.ts'
import { tempDirectory } from '../../support/net/temp-directory.ts'

const { mark = '', fails = false } = JSON.parse(
  process.env['USHER_TEST_LEAVES'] ?? '{}',
) as { readonly mark?: string; readonly fails?: boolean }

// Everything that a test may leave behind; then it fails, or waits to be ended.
t.test('leaves all', async t => {
  const net = await makeClusterNet('leaves-all')
  const folder = await tempDirectory(t)
  const fixture = t.testdir({ file: 'content' })
  writeFileSync(`${folder}/file`, 'content')
  process.stderr.write(`made ${JSON.stringify([folder, fixture])}\n`)
  for (const prefix of [[], net.node.prefix]) {
    const [command, ...args] = [...prefix, 'sh', '-c', 'sleep 600; :', mark]
    spawn(command, args, { detached: true, stdio: 'ignore' }).unref()
  }
  if (fails) throw new Error('as tests do')
  await new Promise(() => setInterval(() => {}, 1000))
})
