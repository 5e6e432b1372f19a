import t from 'tap'
import { fishScript } from '../../../src/cli/completion/fish.ts'
import { missingPrograms } from '../../support/installed.ts'
import { folderWith, linesOf } from './shells.ts'

t.test('fish completes', { skip: missingPrograms('fish') }, async t => {
  const folder = await folderWith(t, fishScript)
  const complete = async (line: string) => {
    const command = `source ./script; complete -C '${line}'`
    const lines = await linesOf(folder, 'fish', ['--no-config', '-c', command])
    return lines.map(found => found.split('\t')[0])
  }
  t.strictSame(await complete('usher s'), ['sidecar', 'status'])
  t.strictSame(await complete('usher demo --con'), ['--connection-buffer'])
  t.strictSame(await complete('usher run --relay '), ['auto', 'linux', 'portable'])
  t.strictSame(await complete('usher run --relay=p'), ['--relay=portable'])
  t.strictSame(await complete('usher get -o w'), ['wide'])
  t.strictSame(
    await complete('usher pause run --for'),
    ['--for'],
    'run is no command here',
  )
  t.strictSame(await complete('usher sidecar --config routes-b'), ['routes-b.yaml'])
  t.strictSame(await complete('usher check routes-b'), ['routes-b.yaml'])
  t.strictSame(await complete('usher run --state-dir rou'), ['routes-dir/'])
  t.strictSame(await complete('usher demo rou'), [])
})
