import t from 'tap'
import { zshScript } from '../../../src/cli/completion/zsh.ts'
import { missingPrograms } from '../../support/installed.ts'
import { folderWith, linesOf } from './shells.ts'

/**
 * zsh completes only on a terminal: one of its module zpty, where a tab is typed after each of the
 * arguments. What the line has become is what `usher`, here a function, is called with; zsh takes a
 * closing = or / away again.
 */
const driver = String.raw`
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'autoload -Uz compinit; compinit -u -D; source ./script'
zpty -w shell 'usher() { print -r -- "${'${(j:|:)@}'}" >>./called }'
for line; do zpty -w shell "$line"$'\t'; done
zpty -w shell ': >./ended'
for _ in {1..300}; do
  [[ -e ./ended ]] && break
  while zpty -r -t shell _; do :; done
  sleep 0.05
done
zpty -d shell
cat ./called
`

t.test('zsh completes', { skip: missingPrograms('zsh') }, async t => {
  const folder = await folderWith(t, zshScript)
  const wanted = [
    ['usher sid', 'sidecar'],
    ['usher demo --conn', 'demo|--connection-buffer'],
    ['usher run --relay p', 'run|--relay|portable'],
    ['usher run --relay=p', 'run|--relay=portable'],
    ['usher get -o w', 'get|-o|wide'],
    ['usher get rou', 'get|routes'],
    ['usher sidecar --config routes-b', 'sidecar|--config|routes-b.yaml'],
    ['usher check routes-b', 'check|routes-b.yaml'],
    ['usher run --state-dir rou', 'run|--state-dir|routes-dir'],
    ['usher help und', 'help|undrain'],
    ['usher demo rou', 'demo|rou'],
  ] as const
  const typed = wanted.map(([line]) => line)
  const called = await linesOf(folder, 'zsh', ['-f', '-c', driver, 'zsh', ...typed])
  t.strictSame(
    called,
    wanted.map(([, line]) => line),
  )
})
