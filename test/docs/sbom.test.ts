import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t from 'tap'
import { version } from '../../src/cli/version.ts'
import { productionPackages, readLock } from '../../scripts/production-packages.ts'
import { top } from '../support/deploy.ts'

const sbom = async (...flags: string[]): Promise<unknown> => {
  const args = ['--import', 'tsx', 'scripts/sbom.ts', ...flags]
  const { stdout } = await promisify(execFile)(process.execPath, args, {
    cwd: top,
    env: { PATH: process.env['PATH'], HOME: process.env['HOME'] },
    maxBuffer: 64 * 1024 * 1024,
  })
  return JSON.parse(stdout)
}

/** As `name@version`, sorted, each once. */
const named = (packages: readonly (readonly [string, string])[]): string[] =>
  [...new Set(packages.map(([name, itsVersion]) => `${name}@${itsVersion}`))].toSorted()

const expected = async (): Promise<string[]> => {
  const lock = await readLock()
  const nameOf = (path: string): string => path.split('node_modules/').at(-1) ?? ''
  return named(
    productionPackages(lock).map(([path, locked]) => [nameOf(path), locked.version]),
  )
}

t.test('SPDX lists Usher and each package that runs it, with its licence', async t => {
  const { spdxVersion, packages } = (await sbom()) as {
    spdxVersion: string
    packages: readonly { name: string; versionInfo: string; licenseDeclared: string }[]
  }
  t.match(spdxVersion, /^SPDX-2\.\d$/)
  const [usher, ...others] = packages
  t.match(usher, { name: 'usher-proxy', versionInfo: version() })
  const found = others.map(each => [each.name, each.versionInfo] as const)
  t.strictSame(named(found), await expected())
  for (const name of ['yaml', 'valibot', 'pino', 'koffi'])
    t.ok(
      others.some(each => each.name === name),
      name,
    )
  const unlicensed = packages.filter(each => !/\w/.test(each.licenseDeclared))
  t.strictSame(unlicensed, [])
})

t.test('CycloneDX lists the same', async t => {
  const { bomFormat, metadata, components } = (await sbom('--sbom-format=cyclonedx')) as {
    bomFormat: string
    metadata: { component: object }
    components: readonly { 'bom-ref': string }[]
  }
  t.equal(bomFormat, 'CycloneDX')
  t.match(metadata.component, { name: 'usher-proxy', version: version() })
  const found = components.map(({ 'bom-ref': reference }) => {
    const at = reference.lastIndexOf('@')
    return [reference.slice(0, at), reference.slice(at + 1)] as const
  })
  t.strictSame(named(found), await expected())
})
