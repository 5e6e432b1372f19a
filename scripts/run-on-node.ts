import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { installNode, programOf, testCache } from './tests/node-package.ts'

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

interface Found {
  readonly program: string
  /** As in `v24.1.0`; '' when it is not available. */
  readonly version: string
  readonly why: string
}

const findNode = (major: string): Found => {
  const folder = join(testCache, 'node', major)
  const system = `${process.platform}-${process.arch}`
  const wanted = { system, version: major, folder }
  const program = programOf(wanted)
  const versionOf = (): string =>
    spawnSync(program, ['--version'], { encoding: 'utf8' }).stdout?.trim() ?? ''
  const there = versionOf()
  if (there !== '') return { program, version: there, why: '' }
  const said = installNode(wanted)
  const version = versionOf()
  return { program, version, why: said || `${program} does not start` }
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
