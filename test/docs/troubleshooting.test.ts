import { readdirSync, readFileSync } from 'node:fs'
import t from 'tap'
import { isCommand } from '../../src/config/commands.ts'
import { acceptedBy } from '../../src/config/options.ts'

const top = new URL('../../', import.meta.url)
const page = readFileSync(new URL('docs/troubleshooting.md', top), 'utf8')

const src = new URL('src/', top)
const source = readdirSync(src, { recursive: true, encoding: 'utf8' })
  .filter(name => name.endsWith('.ts'))
  .map(name => readFileSync(new URL(name, src), 'utf8'))
  .join('\n')

/** The cells of its rows, without heads and lines. */
const rows = page
  .split('\n')
  .filter(line => line.startsWith('| ') && !/^\| (what you see|-)/.test(line))
  .map(line => line.split('|').map(cell => cell.trim()))

const codes = (text: string): readonly string[] =>
  [...text.matchAll(/`([^`]+)`/g)].map(([, code = '']) => code)

t.test('what it says that Usher says stands in the source', async t => {
  const quoted = rows.flatMap(([, seen = '', how = '']) =>
    // Of what a command shows; before that stands the command.
    codes(seen).concat(codes(/^`usher status`: (.*)/.exec(how)?.[1] ?? '')),
  )
  t.ok(quoted.length > 35, `${quoted.length}`)
  for (const text of quoted)
    for (const part of text.split('…').map(each => each.trim()))
      t.ok(part === '' || source.includes(part), `${text}: ${part}`)
})

t.test('flags that it names are there', async t => {
  const called = [...page.matchAll(/`usher ([a-z]+) ?([^`]*)`/g)]
  for (const [, command = '', rest = ''] of called)
    if (isCommand(command))
      for (const [, flag = ''] of rest.matchAll(/--([a-z-]+)/g))
        t.ok(
          acceptedBy(command).some(([name]) => name === flag),
          `usher ${command} --${flag}`,
        )
  const known = new Set(
    (['run', 'sidecar', 'status'] as const).flatMap(name =>
      acceptedBy(name).map(([flag]) => flag),
    ),
  )
  const alone = codes(page).filter(code => code.startsWith('--'))
  t.ok(alone.length > 5)
  for (const code of alone)
    for (const [, flag = ''] of code.matchAll(/--([a-z-]+)/g)) t.ok(known.has(flag), code)
})
