import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { launchUsherBy, runUsherBy, spawnUsher } from '../support/usher.ts'

// What an ordinary user can't do is said with what would help.
const notRoot = process.getuid?.() !== 0 && 'needs root, to give its rights up'
t.jobs = 3

const asUser = [
  ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'],
  ['--bounding-set=-all', '--inh-caps=-all'],
].flat()

/** With the ports below 1024 as they are by default, whatever this host has set. */
const inOwnNetwork = [
  'unshare',
  '--net',
  'sh',
  '-c',
  'ip link set lo up; exec "$@"',
  'sh',
]

const refuses = async (
  t: Test,
  args: readonly string[],
  code: number,
  words: RegExp,
  before: readonly string[] = asUser,
): Promise<void> => {
  const child = spawnUsher(args, before)
  const [[found], err] = await Promise.all([once(child, 'close'), text(child.stderr)])
  t.equal(found, code, err)
  t.match(err, words)
  t.notMatch(err, /^ +at /m, 'without a stack')
}

const noServers = ['--metrics-bind-address=off', '--healthz-bind-address=off']

t.test('for the mode of a configuration file', { skip: notRoot }, async t => {
  const configOf = (mode: string): string =>
    `apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: ${mode}\n`
  const own = t.testdir({ userspace: configOf('userspace'), ipvs: configOf('ipvs') })
  const check = (...args: string[]) =>
    runUsherBy([...inOwnNetwork, ...asUser], 'check', ...args)
  t.match(await check('--config', `${own}/userspace`), {
    code: 0,
    out: /userspace: in order; 0 warnings\n/,
  })
  const { code, out } = await check('--config', `${own}/ipvs`)
  t.equal(code, 0, 'it may be for another node')
  const [, why = 'none'] = /^warning: mode ipvs not usable here: (.+)$/m.exec(out) ?? []
  t.match(out, 'ipvs: in order; 1 warning\n')
  const next = 'ipvs does not work without privileges: check again as root'
  t.match(out, new RegExp(`^next: mode in \\S+/ipvs: ${next}$`, 'm'))
  const flag = await check('--proxy-mode=ipvs')
  t.equal(flag.code, 1)
  const [, same = ''] = /^mode +ipvs +not usable +(.+)$/m.exec(flag.out) ?? []
  t.equal(why, same, 'in the same words')
})

t.test('to read a file', { skip: notRoot }, async t => {
  const dir = t.testdir({})
  writeFileSync(`${dir}/x`, '', { mode: 0o600 })
  const denied = /--config \S+x: permission to read it is denied/
  await refuses(t, ['sidecar', '--config', `${dir}/x`], 2, denied)
})

t.test('to listen', { skip: notRoot }, async t => {
  const low = ['sidecar', '--route', `tcp://127.0.0.1:80=127.0.0.1:1`, ...noServers]
  const grant = /EACCES: ports below 1024 need CAP_NET_BIND_SERVICE; grant it or give/
  await refuses(t, low, 1, grant, [...inOwnNetwork, ...asUser])
  const unix = ['sidecar', '--route', 'unix:/root/x.sock=127.0.0.1:1', ...noServers]
  await refuses(t, unix, 1, /no permission to make a socket .*; give another path/)
})

t.test('to change rules', { skip: notRoot }, async t => {
  const advice = /run it as root, or with the capability NET_ADMIN/
  await refuses(t, ['cleanup', '--dry-run'], 1, advice, [...inOwnNetwork, ...asUser])
  const path = `${t.testdir({ 'a.yaml': '# nothing\n' })}/a.yaml`
  const usher = launchUsherBy(t, asUser, 'run', path, '--capture=nftables')
  const told = await usher.logged('this capture does not work here at the moment')
  t.match(told, { advice: /run it as root, .*; or --capture auto takes what works/ })
})
