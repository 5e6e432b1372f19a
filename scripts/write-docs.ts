import { readFile, writeFile } from 'node:fs/promises'
import { withFlagsTable } from './flags-table.ts'
import { routesSchema, withRouteFields } from './routes-schema.ts'

const rewrite = async (
  path: string,
  change: (page: string) => Promise<string>,
): Promise<void> => {
  const file = new URL(`../${path}`, import.meta.url)
  await writeFile(file, await change(await readFile(file, 'utf8')))
}

await rewrite('docs/flags.md', withFlagsTable)
await rewrite('docs/sidecar-options.md', withRouteFields)
await rewrite('deploy/routes.schema.json', routesSchema)
