import { access, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { installPeers, type PackageSystem } from '../../../bench/peers/install.ts'
import { type RunTool, ToolError } from '../../../src/kernel/run-tool.ts'

const exists = (file: string) =>
  access(file).then(
    () => true,
    () => false,
  )
import { until } from '../../support/until.ts'

interface System extends PackageSystem {
  readonly said: string[]
  /** Calls of apt-get and update-rc.d, the options of apt-get left out. */
  readonly calls: string[]
  readonly say: (line: string) => void
}

/** A Debian on which `have` can be started, and apt-get is what `apt` does. */
const system = (
  t: Test,
  have: readonly string[],
  apt: (what: string) => Promise<void> = () => Promise.resolve(),
): System => {
  const policyFile = join(t.testdir({}), 'policy-rc.d')
  const said: string[] = []
  const calls: string[] = []
  const run: RunTool = async (command, args) => {
    const line = [command, ...args].join(' ')
    if (command === 'env' || command === 'update-rc.d') {
      calls.push(line.replace(/^.*--quiet (-o \S+ )*/, ''))
      await apt(line.split(' ').at(-1) ?? '')
      return ''
    }
    const program = command === 'sh' ? 'wrk' : command
    if (command === 'dpkg-query')
      return have.includes('stream') ? 'installed' : 'config-files'
    if (!have.includes(program))
      throw new ToolError(`${program}: not found`, 'missing', '')
    return ''
  }
  const say = (line: string): void => void said.push(line)
  return { run, isRoot: true, policyFile, said, calls, say }
}

t.test('only what is missing is installed, and no service starts', async t => {
  const policies: string[] = []
  const it = system(t, ['apt-get', 'haproxy'], async () => {
    policies.push(await readFile(it.policyFile, 'utf8'))
    t.equal((await stat(it.policyFile)).mode & 0o777, 0o755)
  })
  await installPeers(it.say, it)
  t.strictSame(it.calls, [
    'update',
    'install --no-install-recommends nginx-light',
    'update-rc.d nginx disable',
    'install --no-install-recommends libnginx-mod-stream',
    'install --no-install-recommends wrk',
  ])
  t.equal(policies.length, 5)
  t.ok(policies.every(text => /^exit 101$/m.test(text)))
  t.notOk(await exists(it.policyFile), 'what forbade it is removed')
  t.strictSame(it.said, [
    'Installing nginx-light, libnginx-mod-stream, wrk.',
    'nginx-light is installed.',
    'libnginx-mod-stream is installed.',
    'wrk is installed.',
  ])
})

t.test('a package that can not be had is told, and the others come', async t => {
  const it = system(t, ['apt-get', 'wrk', 'stream'], async what => {
    if (what === 'haproxy') throw new Error('Unable to locate package haproxy')
  })
  await installPeers(it.say, it)
  t.ok(it.said.includes('haproxy is left out: Unable to locate package haproxy'))
  t.ok(it.said.includes('nginx-light is installed.'))
  t.notOk(it.calls.includes('update-rc.d haproxy disable'))
  t.notOk(await exists(it.policyFile))
})

t.test('where nothing is missing, nothing is done', async t => {
  const it = system(t, ['apt-get', 'haproxy', 'nginx', 'stream', 'wrk'])
  await installPeers(it.say, { ...it, isRoot: false })
  t.strictSame(it.calls, [])
  t.strictSame(it.said, ['Every peer is installed already.'])
})

t.test('without root the packages to install are named', async t => {
  const it = system(t, ['apt-get', 'nginx', 'stream'])
  await t.rejects(installPeers(it.say, { ...it, isRoot: false }), {
    message: 'installing needs root: run apt-get install haproxy wrk as root',
  })
  t.strictSame(it.calls, [])
})

t.test('where there is no apt-get, the packages are named', async t => {
  const it = system(t, [])
  await t.rejects(installPeers(it.say, it), {
    message: /no apt-get here.*haproxy, nginx-light, libnginx-mod-stream, wrk/,
  })
})

t.test("somebody else's policy-rc.d stays as it is", async t => {
  const it = system(t, ['apt-get'])
  await writeFile(it.policyFile, 'theirs')
  await installPeers(it.say, it)
  t.equal(await readFile(it.policyFile, 'utf8'), 'theirs')
  t.match(it.said[0], `${it.policyFile} is there already`)
})

t.test('one of ours that a kill left behind is removed', async t => {
  let ours = ''
  const it = system(t, ['apt-get'], async () => {
    ours = await readFile(it.policyFile, 'utf8')
  })
  await installPeers(it.say, it)
  await writeFile(it.policyFile, ours)
  await installPeers(it.say, it)
  t.notOk(await exists(it.policyFile))
})

t.test('a signal ends it after the package that is on its way', async t => {
  const it = system(t, ['apt-get'], async what => {
    if (what !== 'haproxy') return
    process.kill(process.pid, 'SIGINT')
    await until('it heard', () => it.said.some(line => line.startsWith('SIGINT')))
    t.ok(await exists(it.policyFile), 'still forbidden until it is done')
  })
  const listeners = process.listenerCount('SIGINT')
  await t.rejects(installPeers(it.say, it), { message: 'interrupted by SIGINT' })
  t.notMatch(it.calls.join(), 'nginx-light')
  t.notOk(await exists(it.policyFile))
  t.equal(process.listenerCount('SIGINT'), listeners)
})
