import { existsSync, readFileSync } from 'node:fs'
import t from 'tap'
import { routesSchema, withRouteFields } from '../../scripts/routes-schema.ts'
import { commandNames } from '../../src/config/commands.ts'
import { parseOptions } from '../../src/config/parse.ts'
import { faultText, readRoutes } from '../../src/source/routes/read-routes.ts'

const top = new URL('../../', import.meta.url)
const read = (path: string): string => readFileSync(new URL(path, top), 'utf8')
const page = read('docs/sidecar.md') + read('docs/routes.md')

/** The blocks of code in one language, of both pages. */
const blocks = (language: string): readonly string[] =>
  [...page.matchAll(new RegExp(`\`\`\`${language}\n([^]*?)\`\`\``, 'g'))].map(
    ([, block = '']) => block,
  )

t.test('the fields in the page and the schema are those of the definition', async t => {
  const options = read('docs/routes.md')
  t.equal(options, await withRouteFields(options), 'if not, run: npm run docs')
  t.equal(read('deploy/routes.schema.json'), await routesSchema(), 'if not, the same')
  await t.rejects(withRouteFields('# Routes'), { message: /route-fields:begin/ })
})

t.test('the schema lies where the examples say, and in the package', async t => {
  const { files } = JSON.parse(read('package.json')) as { files: string[] }
  t.ok(files.includes('deploy'))
  for (const path of ['docs/routes.md', 'deploy/examples/routes.yaml']) {
    const [, schema = ''] =
      /^# yaml-language-server: \$schema=(\S+)$/m.exec(read(path)) ?? []
    t.ok(existsSync(new URL(schema, new URL(path, top))), `${path}: ${schema}`)
  }
})

t.test('command lines in the pages are understood', async t => {
  const lines = blocks('sh')
    .flatMap(block => block.split('\n'))
    .filter(line => line.startsWith('usher sidecar'))
  t.ok(lines.length > 0)
  for (const line of lines) {
    const [, name, ...words] = line.replaceAll("'", '').split(' ')
    const command = commandNames.find(one => one === name) ?? 'status'
    t.doesNotThrow(() => parseOptions(command, words), line)
  }
})

t.test('what the pages say of a bad file is what is said', async t => {
  const text =
    '# a comment\nroutes:\n  - listen: tcp://localhost:15432\n    endpoints: [a:1]\n    afinity: 3h\n'
  const { faults } = await readRoutes(text)
  t.equal(faults.length, 2)
  for (const fault of faults)
    t.ok(page.includes(`problem: routes.yaml: ${faultText(fault)}\n`), faultText(fault))
})
