import { readdirSync, readFileSync } from 'node:fs'
import t from 'tap'
import { readRoutes } from '../../src/source/routes/read-routes.ts'

const top = new URL('../../', import.meta.url)
const pages = readdirSync(new URL('docs', top)).filter(name => name.endsWith('.md'))

/** The blocks of YAML of a page, but those that are manifests of Kubernetes, or other programs'. */
const routeFiles = (page: string): readonly string[] =>
  [...page.matchAll(/```yaml\n([^]*?)```/g)]
    .map(([, block = '']) => block)
    .filter(
      block =>
        !/^(apiVersion|initContainers|metricsBindAddress|rule_files):/m.test(block),
    )

t.test('examples of routes in all pages are sound', async t => {
  const found = new Set<string>()
  for (const name of pages)
    for (const text of routeFiles(readFileSync(new URL(`docs/${name}`, top), 'utf8'))) {
      const { routes, faults } = await readRoutes(text)
      t.strictSame(faults, [], `${name}: ${text}`)
      t.ok(routes.length > 0, name)
      found.add(name)
    }
  for (const name of ['sidecar.md', 'routes.md']) t.ok(found.has(name), name)
})

t.test('the example in deploy/ is sound', async t => {
  const text = readFileSync(new URL('deploy/examples/routes.yaml', top), 'utf8')
  const { routes, faults } = await readRoutes(text)
  t.strictSame(faults, [])
  t.ok(routes.length > 0)
})
