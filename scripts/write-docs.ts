import { readFile, writeFile } from 'node:fs/promises'
import { withFlagsTable } from './flags-table.ts'
import { manPages } from './man-pages.ts'
import { monitoringFiles } from './monitoring/files.ts'
import { outputSchemas } from './output-schemas.ts'
import { routesSchema, withRouteFields } from './routes-schema.ts'

const top = new URL('../', import.meta.url)

const rewrite = async (
  path: string,
  change: (page: string) => string | Promise<string>,
): Promise<void> => {
  const file = new URL(path, top)
  await writeFile(file, await change(await readFile(file, 'utf8')))
}

/** npm shows pages to `man` only where package.json names each of them. */
const withManPages = (text: string): string => {
  const man = Array.from(manPages(new Date()).keys(), name => `man/${name}`)
  return `${JSON.stringify({ ...(JSON.parse(text) as object), man }, null, 2)}\n`
}

await rewrite('package.json', withManPages)
await rewrite('docs/flags.md', withFlagsTable)
await rewrite('docs/routes.md', withRouteFields)
await rewrite('deploy/routes.schema.json', routesSchema)
for (const [path, text] of [...(await outputSchemas()), ...(await monitoringFiles())])
  await writeFile(new URL(path, top), text)
