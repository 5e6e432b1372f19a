import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import { commandNames } from '../../src/config/commands.ts'
import { runInstalled, worksInstalled } from '../support/installed-usher.ts'
import { missingPrograms } from '../support/installed.ts'

const execute = promisify(execFile)
// lintian takes its time.
t.setTimeout(500_000)

const top = fileURLToPath(new URL('../../', import.meta.url))

t.test('a Debian package', { skip: missingPrograms('dpkg-deb', 'dpkg') }, async t => {
  t.setTimeout(500_000)
  const folder = await mkdtemp(join(tmpdir(), 'usher-deb-test-'))
  t.teardown(() => rm(folder, { recursive: true }))
  const env = { PATH: process.env['PATH'] }
  const script = ['--import', 'tsx', 'scripts/deb.ts', folder]
  const { stdout: built } = await execute(process.execPath, script, { cwd: top, env })
  const file = built.trim()

  await t.test('has what Debian puts where', async t => {
    const { stdout } = await execute('dpkg-deb', ['--contents', file])
    for (const path of [
      ...commandNames.map(name => `usr/share/man/man1/usher-${name}.1.gz`),
      'usr/lib/systemd/system/usher-sidecar@.service',
      'usr/share/bash-completion/completions/usher',
      'etc/usher/usher.env',
      'usr/bin/usher -> ../lib/usher/dist/usher.js',
    ])
      t.match(stdout, `./${path}`)
    t.notMatch(stdout, /dist\/bench[-.]|node_modules\/(tap|typescript|esbuild)\//)
    const { stdout: depends } = await execute('dpkg-deb', ['--field', file, 'Depends'])
    t.match(depends, 'nodejs (>= 20.18)')
  })

  await t.test('works from where it is unpacked', async t => {
    const root = join(folder, 'root')
    await execute('dpkg-deb', ['-x', file, root])
    const program = [process.execPath, join(root, 'usr/bin/usher')]
    await worksInstalled(t, program)
    const said = await runInstalled(program, 'check').catch(
      (error: unknown) => (error as { stdout: string }).stdout,
    )
    t.match(said, 'relay', 'and says what it can')
  })

  await t.test(
    'lintian finds no error',
    { skip: missingPrograms('lintian') },
    async t => {
      await t.resolves(execute('lintian', ['--allow-root', '--fail-on=error', file]))
    },
  )
})
