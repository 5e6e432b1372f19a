/**
 * `npm run --silent sbom`: the packages that run Usher, as SPDX on standard output, or as
 * `-- --sbom-format=cyclonedx` says. Made by `npm sbom`, of copies of package.json and package-lock.json that
 * name nothing else: its own `--omit=dev` leaves out what tests need as well, like yaml.
 */
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { productionPackages, readLock } from './production-packages.ts'

type Named = Readonly<Record<string, unknown>>

/** As those see it who use the package. JSON leaves out what is undefined. */
const released = (named: Named): object => ({ ...named, devDependencies: undefined })

const manifest = JSON.parse(
  await readFile(new URL('../package.json', import.meta.url), 'utf8'),
) as Named
const lock = await readLock()
const own = lock.packages[''] as unknown as Named

const parent = await mkdtemp(join(tmpdir(), 'usher-sbom-'))
// CycloneDX names what it is about after the folder.
const folder = join(parent, String(manifest['name']))
try {
  await mkdir(folder)
  const write = (name: string, value: object): Promise<void> =>
    writeFile(join(folder, name), JSON.stringify(value))
  await write('package.json', released(manifest))
  await write('package-lock.json', {
    ...lock,
    packages: Object.fromEntries([['', released(own)], ...productionPackages(lock)]),
  })
  const { stdout } = await promisify(execFile)(
    'npm',
    [
      'sbom',
      '--package-lock-only',
      '--sbom-type=application',
      '--sbom-format=spdx',
      ...process.argv.slice(2),
    ],
    { cwd: folder, maxBuffer: 64 * 1024 * 1024 },
  )
  process.stdout.write(stdout)
} finally {
  await rm(parent, { recursive: true })
}
