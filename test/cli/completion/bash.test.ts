import t from 'tap'
import { bashScript } from '../../../src/cli/completion/bash.ts'
import { missingPrograms } from '../../support/installed.ts'
import { folderWith, linesOf } from './shells.ts'

t.test('bash completes', { skip: missingPrograms('bash') }, async t => {
  const folder = await folderWith(t, bashScript)
  /** The words as bash has cut them; the last one is completed. */
  const complete = (...words: readonly string[]) =>
    linesOf(folder, 'bash', [
      '--norc',
      '-c',
      'source ./script; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _usher usher; printf "%s\\n" "${COMPREPLY[@]}"',
      'bash',
      'usher',
      ...words,
    ])

  await t.test('commands', async t => {
    t.strictSame(await complete('s'), ['sidecar', 'status'])
    t.ok((await complete('')).includes('completion'))
    t.strictSame(await complete('help', 'un'), ['undrain'])
  })
  await t.test('flags of the command', async t => {
    t.strictSame(await complete('sidecar', '--cont'), ['--control-socket'])
    t.strictSame(await complete('demo', '--con'), ['--connection-buffer'])
    t.strictSame(await complete('demo', '--once', '--hel'), ['--help'])
  })
  await t.test('words, also after an equals sign', async t => {
    const relays = ['auto', 'linux', 'portable']
    t.strictSame(await complete('run', '--relay', ''), relays)
    t.strictSame(await complete('run', '--relay', '='), relays)
    t.strictSame(await complete('run', '--relay', '=', 'p'), ['portable'])
    t.strictSame(await complete('get', '-o', 'w'), ['wide'])
    t.strictSame(await complete('get', '--output', 'json', 'r'), ['routes'])
    t.strictSame(await complete('drain', '--close', ''), ['none', 'idle', 'all'])
  })
  await t.test('files, with their blanks, and folders', async t => {
    const files = ['routes a.yaml', 'routes-b.yaml', 'routes-dir']
    t.strictSame((await complete('sidecar', '--config', 'rou')).toSorted(), files)
    t.strictSame((await complete('run', 'rou')).toSorted(), files)
    t.strictSame(await complete('run', '--state-dir', 'rou'), ['routes-dir'])
  })
  await t.test('nothing where nothing is known', async t => {
    t.strictSame(await complete('run', '--bind-address', ''), [])
    t.strictSame(await complete('demo', ''), [])
    t.strictSame(await complete('nonsense', ''), [])
  })
})
