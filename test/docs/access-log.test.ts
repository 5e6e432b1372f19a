import { readFileSync } from 'node:fs'
import t from 'tap'
import { jsonFields } from '../../src/relay/access-log/json-line.ts'
import { tcplogFields } from '../../src/relay/access-log/tcplog-line.ts'
import { readRoutes } from '../../src/source/routes/read-routes.ts'

const page = readFileSync(new URL('../../docs/operating.md', import.meta.url), 'utf8')
const [, about = ''] = page.split('\n## Access log\n')

const below = (heading: string): string =>
  about.split(`\n### ${heading}\n`)[1]?.split('\n### ')[0] ?? ''

/** The rows of a table by cell, under a heading. */
const rowsUnder = (heading: string): string[][] =>
  [...below(heading).matchAll(/^\| (`.*) \|$/gm)].map(([, row = '']) =>
    row.split(' | ').map(cell => cell.trim()),
  )

t.test('the table of fields in JSON is what is written', async t => {
  t.strictSame(
    rowsUnder('JSON'),
    jsonFields.map(({ name, meaning }) => [`\`${name}\``, meaning]),
  )
  const [, example = ''] = /```json\n([^]*?)```/.exec(below('JSON')) ?? []
  const names = jsonFields.map(({ name }) => name)
  t.strictSame(
    Object.keys(JSON.parse(example) as object),
    names.filter(name => !['usher.more_attempts', 'usher.detail'].includes(name)),
  )
})

t.test('so is that of the tcplog form', async t => {
  t.strictSame(
    rowsUnder('tcplog'),
    tcplogFields.map(({ name, meaning, differs }) => [
      `\`${name}\``,
      meaning,
      differs || 'the same',
    ]),
  )
})

t.test('the route of the page is sound', async t => {
  const [, text = ''] = /```yaml\n([^]*?)```/.exec(about) ?? []
  const { routes, faults } = await readRoutes(text)
  t.strictSame(faults, [])
  t.match(routes, [{ accessLog: { format: 'json', to: /^file:/, route: 'db' } }])
})
