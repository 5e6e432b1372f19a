import { readFile, writeFile } from 'node:fs/promises'
import { withFlagsTable } from './flags-table.ts'

const flags = new URL('../docs/flags.md', import.meta.url)
await writeFile(flags, await withFlagsTable(await readFile(flags, 'utf8')))
