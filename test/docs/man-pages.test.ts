import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { manPages } from '../../scripts/man-pages.ts'
import { commandNames, commands } from '../../src/config/commands.ts'
import { rowsOf } from '../../src/config/options.ts'
import { missingPrograms } from '../support/installed.ts'

const execute = promisify(execFile)
const pages = manPages(new Date('2026-08-03T23:59:00Z'))

const written = async (
  t: Test,
): Promise<{ readonly folder: string; readonly names: readonly string[] }> => {
  const folder = await mkdtemp(join(tmpdir(), 'usher-man-'))
  t.teardown(() => rm(folder, { recursive: true }))
  for (const [name, page] of pages) await writeFile(join(folder, name), page)
  return { folder, names: [...pages.keys()] }
}

t.test('there is a page for Usher and one for each command', async t => {
  const names = commandNames.map(name => `usher-${name}.1`)
  t.strictSame([...pages.keys()], ['usher.1', ...names])
  for (const page of pages.values()) t.match(page, /^\.Dd August 3, 2026\n\.Dt USHER/)
})

t.test('nothing in a page is taken for a request that is none', async t => {
  const known = /^\.(Dd|Dt|Os|Sh|Ss|Nm|Nd|Ar|Op|Bl -tag|El|It|Pp|Bd -literal|Ed|Xr)( |$)/
  for (const [name, page] of pages)
    for (const line of page.split('\n'))
      if (/^[.']/.test(line)) t.match(line, known, name)
})

t.test('mandoc finds no fault', { skip: missingPrograms('mandoc') }, async t => {
  // Other pages are looked for where it runs.
  const { folder, names } = await written(t)
  const { stdout } = await execute('mandoc', ['-T', 'lint', ...names], { cwd: folder })
  t.equal(stdout, '')
})

t.test(
  'man finds no fault, and shows flags that can be pasted',
  {
    skip: missingPrograms('man', 'groff'),
  },
  async t => {
    const { folder, names } = await written(t)
    const env = {
      ...process.env,
      LC_ALL: 'C.UTF-8',
      MANWIDTH: '400',
      MAN_KEEP_FORMATTING: '',
    }
    const show = (file: string) =>
      execute('man', ['--warnings', '-E', 'UTF-8', '-P', 'cat', '-l', file], {
        env,
        cwd: folder,
      })
    for (const file of names.filter(name => /usher-(run|get|sidecar)\.1$/.test(name))) {
      const { stdout, stderr } = await show(file)
      t.equal(stderr, '', file)
      const command = commandNames.find(name => file === `usher-${name}.1`) ?? 'run'
      for (const [flag] of rowsOf(command)) t.match(stdout, `--${flag}`, command)
      for (const [line] of commands[command].examples) t.match(stdout, line)
    }
  },
)
