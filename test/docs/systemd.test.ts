import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import { parseOptions } from '../../src/config/parse.ts'
import { restartCode } from '../../src/cli/stop.ts'
import { missingPrograms } from '../support/installed.ts'

const execute = promisify(execFile)
const units = ['usher.service', 'usher-sidecar@.service'] as const
const folder = fileURLToPath(new URL('../../deploy/systemd/', import.meta.url))

const textOf = (unit: string): Promise<string> => readFile(join(folder, unit), 'utf8')

const valuesOf = (text: string, name: string): string[] =>
  text
    .split('\n')
    .flatMap(line => (line.startsWith(`${name}=`) ? [line.slice(name.length + 1)] : []))

t.test('what a unit starts is a command line that is understood', async t => {
  const starts = { 'usher.service': 'run', 'usher-sidecar@.service': 'sidecar' } as const
  for (const unit of units) {
    const [line = ''] = valuesOf(await textOf(unit), 'ExecStart')
    const words = line.replaceAll('%i', 'db').replace(' $USHER_ARGS', '').split(' ')
    t.strictSame(words.slice(0, 2), ['/usr/bin/usher', starts[unit]])
    const { drainTimeout } = parseOptions(starts[unit], words.slice(2))
    const [stop = ''] = valuesOf(await textOf(unit), 'TimeoutStopSec')
    t.ok(Number(stop) * 1000 > drainTimeout, 'it is not killed while it drains')
  }
})

t.test('a reload starts what a start does, where that has changed', async t => {
  for (const unit of units) {
    const text = await textOf(unit)
    const [start = ''] = valuesOf(text, 'ExecStart')
    const reload = valuesOf(text, 'ExecReload').at(-1) ?? ''
    const [words = '', others = ''] = reload.split(' -- ')
    t.equal(`/usr/bin/usher ${others}`, start)
    const [program, command, ...flags] = words.replaceAll('%i', 'db').split(' ')
    t.strictSame([program, command], ['/usr/bin/usher', 'upgrade'])
    const { controlSocket } = parseOptions('upgrade', flags)
    t.ok(start.replaceAll('%i', 'db').includes(`--control-socket ${controlSocket}`))
  }
})

t.test('a configuration that has changed starts Usher again', async t => {
  for (const unit of units)
    t.strictSame(valuesOf(await textOf(unit), 'RestartForceExitStatus'), [
      String(restartCode),
    ])
})

t.test(
  'systemd finds no fault',
  { skip: missingPrograms('systemd-analyze') },
  async t => {
    const copies = await mkdtemp(join(tmpdir(), 'usher-units-'))
    t.teardown(() => rm(copies, { recursive: true }))
    const exposure = { 'usher.service': '50', 'usher-sidecar@.service': '20' } as const
    for (const unit of units) {
      // It wants to find the program, which is not installed here.
      const file = join(copies, unit)
      await writeFile(
        file,
        (await textOf(unit)).replaceAll('/usr/bin/usher', process.execPath),
      )
      const { stdout, stderr } = await execute('systemd-analyze', [
        'verify',
        '--man=no',
        file,
      ])
      t.strictSame([stdout, stderr], ['', ''], unit)
      const threshold = `--threshold=${exposure[unit]}`
      const args = ['security', '--offline=true', threshold, file]
      await t.resolves(
        execute('systemd-analyze', args),
        `${unit} is exposed as little as it was`,
      )
    }
  },
)
