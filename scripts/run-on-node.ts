import { spawnSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

/**
 * `npm run test:node -- 24`: what depends on Node most, on others than the one that runs this:
 * the relays' contract, the demo, and all of one capture. By default on 22, 24 and 26. Their
 * binaries are npm's package `node-PLATFORM-ARCH`, which the package `node` installs; they
 * stay in ~/.cache/usher-tests. One that is not available is skipped by name.
 */
const files = ['test/relay', 'test/cli/demo.test.ts', 'test/e2e/capture-nftables.test.ts']
const asked = process.argv.slice(2)
const majors = asked.length > 0 ? asked : ['22', '24', '26']
const wrong = majors.filter(major => !/^\d+$/.test(major))
if (wrong.length > 0) {
  console.error(`not a major version of Node: ${wrong.join(', ')}; 24 is one`)
  process.exit(1)
}

const caches = process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache')
const name = `node-${process.platform}-${process.arch}`

interface Found {
  readonly program: string
  /** As in `v24.1.0`; '' when it is not available. */
  readonly version: string
  readonly why: string
}

const findNode = (major: string): Found => {
  const folder = join(caches, 'usher-tests', 'node', major)
  const program = join(folder, 'node_modules', name, 'bin', 'node')
  const versionOf = (): string =>
    spawnSync(program, ['--version'], { encoding: 'utf8' }).stdout?.trim() ?? ''
  const there = versionOf()
  if (there !== '') return { program, version: there, why: '' }
  mkdirSync(folder, { recursive: true })
  const flags = [
    '--no-save',
    '--ignore-scripts',
    '--no-audit',
    '--no-fund',
    '--no-progress',
  ]
  const args = ['install', '--prefix', folder, ...flags, `${name}@${major}`]
  // No prompt, and not this project's settings: it is another folder.
  const { stderr, error } = spawnSync('npm', args, { cwd: folder, encoding: 'utf8' })
  const version = versionOf()
  const said = stderr?.split('\n').find(line => line.startsWith('npm error')) ?? ''
  const why = error?.message ?? (said || `${program} does not start`)
  return { program, version, why: version === '' ? why : '' }
}

let failed = 0
for (const major of majors) {
  const { program, version, why } = findNode(major)
  if (version === '') {
    console.log(`Node ${major}: skipped, not available: ${why}`)
    continue
  }
  console.log(`Node ${version}:`)
  const report = `.tap/report-node-${major}.tap`
  const args = ['scripts/run-tests.ts', '--node', program, '--report', report, ...files]
  const { status } = spawnSync(process.execPath, ['--import=tsx', ...args], {
    stdio: 'inherit',
  })
  if (status !== 0) failed += 1
}
process.exitCode = failed === 0 ? 0 : 1
