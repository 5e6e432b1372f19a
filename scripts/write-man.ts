/**
 * Makes the man pages, in the folder that is named or in man/. `npm run tarball` does, and `npm run deb`
 * makes its own; they are not kept, so that a flag has one place.
 */
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { manPages } from './man-pages.ts'

const folder = process.argv[2] ?? fileURLToPath(new URL('../man', import.meta.url))
const { SOURCE_DATE_EPOCH: epoch } = process.env
const date = epoch === undefined ? new Date() : new Date(Number(epoch) * 1000)

await rm(folder, { recursive: true, force: true })
await mkdir(folder, { recursive: true })
for (const [name, page] of manPages(date)) await writeFile(join(folder, name), page)
