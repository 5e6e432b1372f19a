/**
 * `npm run deb`: a Debian package of what `npm run build` has made, in the folder that is named or in results/.
 * The same files with the same SOURCE_DATE_EPOCH give the same package.
 */
import { execFile } from 'node:child_process'
import { lutimes, mkdir, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { version } from '../src/cli/version.ts'
import { controlFiles } from './deb/control-files.ts'
import { fillTree } from './deb/tree.ts'

const execute = promisify(execFile)

const { SOURCE_DATE_EPOCH: epoch } = process.env
const date = epoch === undefined ? new Date() : new Date(Number(epoch) * 1000)
const out = process.argv[2] ?? 'results'

const tree = await mkdtemp(join(tmpdir(), 'usher-deb-'))
try {
  await execute('chmod', ['0755', tree])
  await fillTree(tree, date)
  const { stdout } = await execute('dpkg', ['--print-architecture'])
  await controlFiles(tree, { architecture: stdout.trim(), version: version() })
  // dpkg-deb takes later times back to SOURCE_DATE_EPOCH, but no earlier ones up to it.
  for (const name of await readdir(tree, { recursive: true }))
    await lutimes(join(tree, name), date, date)
  await mkdir(out, { recursive: true })
  const file = join(out, `usher_${version()}_${stdout.trim()}.deb`)
  const env = {
    ...process.env,
    SOURCE_DATE_EPOCH: String(Math.floor(date.getTime() / 1000)),
  }
  // A sixth of the time of xz's own level, for a file that is a sixth larger.
  const compression = ['-Zxz', '-z2']
  const flags = ['--root-owner-group', ...compression, '-b', tree, file]
  await execute('dpkg-deb', flags, { env })
  process.stdout.write(`${file}\n`)
} finally {
  await rm(tree, { recursive: true })
}
