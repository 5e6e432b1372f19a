import { spawn } from 'node:child_process'
import { once } from 'node:events'
import t from 'tap'
import { makeNetns, type Netns } from '../../../support/netns.ts'
import { addForeign, photograph } from './foreign.ts'
import { leaveAll, leaveSome } from './left-behind.ts'
import { options } from './options.ts'
import { usherIn } from './usher-in.ts'

const done = { code: 0, out: 'nothing to clean up\n', err: '' }

t.test(
  'cleanup on a node where nothing is says so and makes nothing',
  options,
  async t => {
    const ns = await makeNetns('cl')
    const before = await photograph(ns)
    t.strictSame(await usherIn(ns, ['cleanup']), done)
    t.strictSame(await usherIn(ns, ['run', '--cleanup']), done)
    t.equal(await photograph(ns), before)
    t.equal(await ns.run('cat', ['/proc/net/ip_tables_names']), '')
  },
)

t.test('what all modes left goes, and what others have stays', options, async t => {
  const ns = await makeNetns('cl')
  await addForeign(ns)
  const before = await photograph(ns)
  t.strictSame(await usherIn(ns, ['cleanup']), done, 'nothing of this is taken for ours')
  await leaveAll(ns)
  const left = await photograph(ns)

  const dry = await usherIn(ns, ['cleanup', '--dry-run'])
  t.match(dry, { code: 0, err: '' })
  t.equal(await photograph(ns), left, 'a dry run changes nothing')

  const { code, out, err } = await usherIn(ns, ['cleanup'])
  t.strictSame({ code, err }, { code: 0, err: '' })
  t.equal(await photograph(ns), before)
  t.equal(dry.out.replaceAll('would remove ', 'removed '), out)
  for (const line of expectedLines) t.match(`\n${out}`, `\nremoved ${line}`)

  t.strictSame(await usherIn(ns, ['cleanup']), done)
  t.equal(await photograph(ns), before)
})

const expectedLines = [
  'nftables table ip6 usher\n',
  'nftables table ip usher-probe-7\n',
  'nftables table ip kube-proxy\n',
  'iptables-nft -t nat: chain KUBE-SERVICES\n',
  'iptables-legacy -t nat: chain KUBE-USHER-VIPS\n',
  'ip6tables-nft -t nat: chain KUBE-SEP-*\n',
  'ip6tables-legacy -t filter: chain KUBE-NODEPORT-NON-LOCAL\n',
  'iptables-nft -t mangle: chain KUBE-PROXY-CANARY\n',
  'ipset KUBE-6-LOAD-BALANCER-SOURCE-CID\n',
  'route local 169.254.77.88/32 dev lo\n',
  'route local 10.97.0.0/16 dev lo\n',
  'address fd00:97::1/128 on lo\n',
  'address fd75:7368:6572::1/128 on lo\n',
  'device kube-ipvs0 ',
  'device usher0 ',
]

t.test('run --cleanup does what kube-proxy --cleanup does', options, async t => {
  const ns = await makeNetns('cl')
  await leaveSome(ns)
  const { code, out } = await usherIn(ns, ['run', '--cleanup'])
  t.equal(code, 0)
  t.match(out, 'removed nftables table ip kube-proxy')
  t.strictSame(await usherIn(ns, ['cleanup']), done)
})

t.test(
  'without the right to, cleanup says what it could not look for',
  options,
  async t => {
    const ns = await makeNetns('cl')
    await leaveSome(ns)
    const before = await photograph(ns)
    const nobody = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', '--']
    const { code, out, err } = await usherIn(ns, ['cleanup'], nobody)
    t.equal(code, 1)
    t.notMatch(out, /removed|nothing to clean up/)
    t.match(err, /can't look for nftables tables: nft -j list tables: .*not permitted/i)
    t.match(err, /can't look for rules of iptables-legacy: .*permission denied/i)
    t.match(err, /device usher0 .* stays: .*not permitted/i)
    t.equal(await photograph(ns), before)
  },
)

/** Holds what an Usher with rules holds, and says who it is. */
const pretendUsher = async (ns: Netns): Promise<() => Promise<void>> => {
  const script = `require('net').createServer(socket => socket.end('usher 0.0.7, pid 7\\n'))
    .listen('\\0usher-capture', () => console.log(1))`
  const [command, ...args] = [...ns.prefix, process.execPath, '-e', script]
  const child = spawn(command, args, {
    env: { PATH: process.env['PATH'] },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await once(child.stdout, 'data')
  return async () => {
    const closed = once(child, 'close')
    child.kill('SIGKILL')
    await closed
  }
}

t.test('cleanup leaves all to an Usher that runs', options, async t => {
  const ns = await makeNetns('cl')
  await leaveSome(ns)
  const before = await photograph(ns)
  const end = await pretendUsher(ns)
  const said =
    'usher cleanup: an Usher is running here (usher 0.0.7, pid 7); end it first\n'
  t.strictSame(await usherIn(ns, ['cleanup']), { code: 1, out: '', err: said })
  const dry = await usherIn(ns, ['cleanup', '--dry-run'])
  t.match(dry, { code: 1, err: said, out: /would remove/ })
  t.equal(await photograph(ns), before)
  await end()
  t.equal((await usherIn(ns, ['cleanup'])).code, 0)
})
