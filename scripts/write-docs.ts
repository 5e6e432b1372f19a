import { readFile, writeFile } from 'node:fs/promises'
import { withFlagsTable } from './flags-table.ts'
import { monitoringFiles } from './monitoring/files.ts'
import { outputSchemas } from './output-schemas.ts'
import { routesSchema, withRouteFields } from './routes-schema.ts'

const top = new URL('../', import.meta.url)

const rewrite = async (
  path: string,
  change: (page: string) => Promise<string>,
): Promise<void> => {
  const file = new URL(path, top)
  await writeFile(file, await change(await readFile(file, 'utf8')))
}

await rewrite('docs/flags.md', withFlagsTable)
await rewrite('docs/sidecar-options.md', withRouteFields)
await rewrite('deploy/routes.schema.json', routesSchema)
for (const [path, text] of [...(await outputSchemas()), ...(await monitoringFiles())])
  await writeFile(new URL(path, top), text)
