import { readFile, writeFile } from 'node:fs/promises'
import { withFlagsTable } from './flags-table.ts'

const readme = new URL('../README.md', import.meta.url)
await writeFile(readme, await withFlagsTable(await readFile(readme, 'utf8')))
