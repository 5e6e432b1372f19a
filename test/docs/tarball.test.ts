// A process of its own: npm takes its time.
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { productionPackages, readLock } from '../../scripts/production-packages.ts'
import { commandNames } from '../../src/config/commands.ts'
import { version } from '../../src/cli/version.ts'
import { top } from '../support/deploy.ts'
import { runInstalled, worksInstalled } from '../support/installed-usher.ts'

t.setTimeout(500_000)

// The variables of an npm that runs the tests would lead this one elsewhere.
const env = { PATH: process.env['PATH'], HOME: process.env['HOME'] }
const execute = (command: string, args: readonly string[], cwd: string) =>
  promisify(execFile)(command, args, { cwd, env, maxBuffer: 64 * 1024 * 1024 })

/**
 * What `npm run tarball` makes of a build, in a folder beside the clone, whose own man/ is left alone: the
 * names that are in it.
 */
const pack = async (from: string, to: string): Promise<readonly string[]> => {
  const { files } = JSON.parse(await readPackage()) as { files: readonly string[] }
  const copied = files.filter(name => !name.startsWith('!') && name !== 'man')
  const all = [...copied, 'package.json', 'README.md', 'LICENSE']
  await execute('cp', ['--archive', ...all, from], top)
  const script = ['--import', 'tsx', 'scripts/write-man.ts', join(from, 'man')]
  await execute(process.execPath, script, top)
  const flags = ['--json', '--pack-destination', to]
  const { stdout } = await execute('npm', ['pack', ...flags], from)
  const [packed] = JSON.parse(stdout) as [{ files: readonly { path: string }[] }]
  return packed.files.map(({ path }) => path)
}

/**
 * `npm install` of the tarball in an empty folder. No registry is asked: what Usher needs of others is there
 * already, from the clone.
 */
const install = async (tarball: string, to: string): Promise<void> => {
  const packages = productionPackages(await readLock()).map(([path]) => path)
  const there = packages.filter(
    path => path.lastIndexOf('node_modules/') === 0 && existsSync(join(top, path)),
  )
  await execute('cp', ['--archive', '--parents', 'node_modules/.bin', ...there, to], top)
  await writeFile(join(to, 'package.json'), '{"private":true}')
  const flags = [
    '--offline',
    '--omit=dev',
    '--ignore-scripts',
    '--cache',
    join(to, '.cache'),
  ]
  await execute('npm', ['install', ...flags, '--no-audit', '--no-fund', tarball], to)
}

const readPackage = (): Promise<string> => readFile(join(top, 'package.json'), 'utf8')

const folderFor = async (t: Test, name: string): Promise<string> => {
  const folder = await mkdtemp(join(tmpdir(), `usher-${name}-`))
  t.teardown(() => rm(folder, { recursive: true }))
  return folder
}

t.test('the tarball of npm', async t => {
  const made = await folderFor(t, 'tarball')
  const names = await pack(await folderFor(t, 'pack'), made)

  await t.test('has what Usher needs, and what people read', async t => {
    for (const name of [
      'LICENSE',
      'README.md',
      'CHANGELOG.md',
      'CONTRIBUTING.md',
      'SECURITY.md',
      'dist/THIRD-PARTY-NOTICES.txt',
      'dist/usher.js',
      'dist/bench.js',
      'deploy/examples/demo.yaml',
      'deploy/helm/usher/Chart.yaml',
      'deploy/helm/usher/values.schema.json',
      'deploy/kubernetes/base/daemon-set.yaml',
      'deploy/monitoring/rules.yaml',
      'deploy/output.schema.json',
      'deploy/routes.schema.json',
      'deploy/status.schema.json',
      'deploy/systemd/usher.service',
      'docs/README.md',
      'man/usher.1',
      ...commandNames.map(command => `man/usher-${command}.1`),
    ])
      t.ok(names.includes(name), name)
    const strange = names.filter(
      name =>
        !/^(dist|deploy|docs|man)\/|^(README|CHANGELOG|CONTRIBUTING|SECURITY)\.md$|^LICENSE$|^package\.json$/.test(
          name,
        ) || /\.(map|ts|log)$|(^|\/)(test|src|node_modules)\//.test(name),
    )
    t.strictSame(strange, [])
    const { man } = JSON.parse(await readPackage()) as { man: readonly string[] }
    const pages = names.filter(name => name.startsWith('man/'))
    t.strictSame(man.toSorted(), pages.toSorted(), 'if not, run: npm run docs')
  })

  const home = await folderFor(t, 'install')
  await install(join(made, `usher-proxy-${version()}.tgz`), home)
  const program = [process.execPath, join(home, 'node_modules/.bin/usher')]

  await t.test('works from where npm installs it', async t => {
    await worksInstalled(t, program)
    const npx = ['--offline', '--no', '--', 'usher-proxy', '--version']
    t.equal((await execute('npx', npx, home)).stdout, `usher ${version()}\n`)
  })

  await t.test('measures from there', async t => {
    const results = join(home, 'results')
    const flags = ['--targets=usher', '--only=requests-1', '--rounds=1', '--seconds=0.1']
    await runInstalled(program, 'bench', '--loopback', ...flags, '--output', results)
    const [figures = '', report] = (await readdir(results)).toSorted().toReversed()
    t.match(figures, /\.json$/)
    t.match(report, /\.html$/)
  })
})
