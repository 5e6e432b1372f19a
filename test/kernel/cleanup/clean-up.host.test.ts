import { chmod } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { servicesTableName } from '../../../src/kernel/nft/tables.ts'
import { makeNetns, type Netns } from '../../support/netns.ts'
import { addForeign, photograph } from './foreign.ts'
import {
  createSets,
  families,
  iptablesMode,
  ipvsMode,
  leaveAll,
  leaveSome,
  table,
  usherRules,
} from './left-behind.ts'
import { options } from './options.ts'
import { runningIn, usherIn } from '../../support/usher-in.ts'
import { usherProgram } from '../../support/usher-program.ts'

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

t.test('what may be kube-proxy’s stays where only Usher’s is to go', options, async t => {
  const ns = await makeNetns('cl')
  await leaveAll(ns)
  // Of Usher's iptables mode, beside what it has in common.
  const jump = `OUTPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes externally-visible service portals" -j KUBE-EXTERNAL-SERVICES`
  await ns.run('iptables-nft-restore', ['--noflush'], {
    input: `*filter\n:KUBE-EXTERNAL-SERVICES - [0:0]\n-A ${jump}\nCOMMIT\n`,
  })
  const { code, out, err } = await usherIn(ns, ['cleanup', '--only-usher'])
  t.strictSame({ code, err }, { code: 0, err: '' })
  t.match(out, `removed iptables-nft -t filter: rule -A ${jump}\n`)
  for (const gone of ['nftables table ip6 usher', 'device usher0', 'KUBE-USHER-VIPS'])
    t.match(out, gone)
  t.notMatch(out, /KUBE-(SERVICES|SEP|SVC|IPVS)|ipset|kube-(ipvs0|proxy)|setting /)
  const left = await photograph(ns)
  for (const stays of ['KUBE-SERVICES', 'KUBE-IPVS-FILTER', 'kube-ipvs0', 'kube-proxy'])
    t.match(left, stays)
  t.notMatch(left, /KUBE-USHER-|table ip6? usher\b|usher0/)
  t.strictSame(await usherIn(ns, ['cleanup', '--only-usher']), done)
})

t.test('UDP flows to endpoints go with the rules that led them', options, async t => {
  const ns = await makeNetns('cl')
  const flow = (vip: string, port: number) => makeFlow(ns, vip, port)
  const setUp = async (): Promise<void> => {
    const rules = [
      '-A KUBE-SERVICES -d 10.96.0.10/32 -p udp -m udp --dport 53 -j KUBE-SVC-X',
      '-A KUBE-NODEPORTS -p udp -m udp --dport 30053 -j KUBE-SVC-X',
    ]
    await ns.run('iptables-nft-restore', ['--noflush'], {
      input: table('nat', ['KUBE-SERVICES', 'KUBE-NODEPORTS', 'KUBE-SVC-X'], rules),
    })
    await leadNftables(ns, ['10.96.0.11 . udp . 53'])
    await flow('10.96.0.10', 53)
    await flow('127.0.0.1', 30_053)
    await flow('10.96.0.11', 53)
    await flow('10.96.0.12', 53)
    await flow('10.96.0.11', 54)
  }
  const flows = () => flowsIn(ns)
  const foreign = ['10.96.0.11 54', '10.96.0.12 53']
  await setUp()
  t.match(await usherIn(ns, ['cleanup']), { code: 0, err: '' })
  t.strictSame(await flows(), foreign)

  await ns.run('conntrack', ['-F'])
  await setUp()
  t.equal((await flows()).length, 5)
  const end = await pretendProxy(ns, { '/proxyMode': 'iptables' })
  t.match(await usherIn(ns, ['cleanup']), { code: 0 })
  t.equal((await flows()).length, 5, 'another proxy serves them')
  await end()
})

t.test('flows that a busy host leaves no time for go too', options, async t => {
  const ns = await makeNetns('cl')
  const vips = Array.from({ length: 12 }, (_, i) => `10.96.0.${i + 1}`)
  await leadNftables(
    ns,
    vips.map(vip => `${vip} . udp . 53`),
  )
  for (const vip of vips) await makeFlow(ns, vip, 53)
  // As slow to begin as where 20 processes wait for each processor.
  const tool =
    '#!/bin/sh\ncase $1 in --dump) sleep 1.2 ;; esac\nPATH=${PATH#*:} exec conntrack "$@"\n'
  const slow = t.testdir({ conntrack: tool })
  await chmod(`${slow}/conntrack`, 0o755)
  const before = ['env', `PATH=${slow}:${process.env['PATH']}`]
  t.match(await usherIn(ns, ['cleanup'], before), { code: 0, err: '' })
  t.strictSame(await flowsIn(ns), [])
})

const makeFlow = async (ns: Netns, vip: string, port: number): Promise<void> => {
  const there = `--src 10.0.0.1 --dst ${vip} --sport 1000 --dport ${port}`
  const back = `--reply-src 10.1.2.${vip.split('.').at(-1)} --reply-dst 10.0.0.1 --reply-port-src ${port} --reply-port-dst 1000`
  await ns.run('conntrack', `-I -p udp -t 120 ${there} ${back}`.split(' '))
}

/** By address and port. */
const flowsIn = async (ns: Netns): Promise<string[]> => {
  const dump = await ns.run('conntrack', ['-L', '-p', 'udp'])
  return Array.from(
    dump.matchAll(/dst=(\S+) sport=1000 dport=(\d+)/g),
    ([, vip, port]) => `${vip} ${port}`,
  ).toSorted()
}

const leadNftables = async (ns: Netns, keys: readonly string[]): Promise<void> => {
  const elements = keys.map(key => `${key} : goto x`).join(', ')
  await ns.run('nft', ['-f', '-'], {
    input: `table ip ${servicesTableName} {
      chain x { accept; }
      map service-ips {
        type ipv4_addr . inet_proto . inet_service : verdict
        elements = { ${elements} }
      }
    }`,
  })
}

/** Somebody who answers on the port where proxies say their mode. */
const pretendProxy = (
  ns: Netns,
  answers: object,
  afterMs = 0,
): Promise<() => Promise<void>> =>
  runningIn(ns, [
    '-e',
    `require('http').createServer((request, response) => {
      const body = ${JSON.stringify(answers)}[request.url]
      setTimeout(() => response.writeHead(body === undefined ? 404 : 200).end(body), ${afterMs})
    }).listen(10249, '127.0.0.1', () => console.log(1))`,
  ])

t.test('of a kube-proxy that runs what is of its mode stays', options, async t => {
  const byMode = {
    iptables: ['chain KUBE-SERVICES', /kube-ipvs0|KUBE-CLUSTER-IP|table ip kube-proxy/],
    ipvs: ['kube-ipvs0', /KUBE-SVC-|table ip kube-proxy/],
    nftables: ['table ip kube-proxy', /chain KUBE-SERVICES|kube-ipvs0/],
  } as const
  for (const [mode, [stays, goes]] of Object.entries(byMode)) {
    const ns = await makeNetns('cl')
    await leaveSome(ns)
    const rules = mode === 'ipvs' ? ipvsMode('iptables') : iptablesMode(families.iptables)
    const input = rules + usherRules
    if (mode === 'ipvs')
      await ns.run('ipset', ['restore', '-!'], { input: createSets('iptables') })
    await ns.run('iptables-nft-restore', ['--noflush'], { input })
    await ns.run('ip', ['link', 'add', 'kube-ipvs0', 'type', 'bridge'])
    const end = await pretendProxy(ns, { '/proxyMode': mode })
    const { code, out, err } = await usherIn(ns, ['cleanup'])
    t.strictSame({ code, err }, { code: 0, err: '' }, mode)
    t.match(out, `a proxy in mode ${mode} serves this node: what is its own stays\n`)
    const left = await photograph(ns)
    t.match(left, stays)
    t.notMatch(left, goes)
    t.notMatch(left, /KUBE-USHER-|usher0/)
    await end()
  }
})

t.test('a kube-proxy on a busy node keeps what is its own', options, async t => {
  const ns = await makeNetns('cl')
  await leaveSome(ns)
  const rules = iptablesMode(families.iptables)
  await ns.run('iptables-nft-restore', ['--noflush'], { input: rules + usherRules })
  const slow = await pretendProxy(ns, { '/proxyMode': 'iptables' }, 3000)
  t.match(await usherIn(ns, ['cleanup']), {
    code: 0,
    out: 'a proxy in mode iptables serves this node: what is its own stays\n',
  })
  t.match(await photograph(ns), 'chain KUBE-SERVICES')
  await slow()

  await ns.run('iptables-nft-restore', ['--noflush'], { input: usherRules })
  const before = await photograph(ns)
  const hung = await pretendProxy(ns, { '/proxyMode': 'iptables' }, 60_000)
  const { code, out: removed, err } = await usherIn(ns, ['cleanup'])
  t.strictSame([code, removed], [1, ''])
  t.match(err, 'has not answered for 10 s: nothing was removed')
  t.equal(await photograph(ns), before)
  await hung()

  const { out } = await usherIn(ns, ['cleanup'])
  t.match(out, 'chain KUBE-SERVICES', 'nobody is there: it goes')
})

t.test('an Usher that ends is waited for, and is no other proxy', options, async t => {
  const ns = await makeNetns('cl')
  await leaveSome(ns)
  const end = await pretendProxy(ns, {
    '/proxyMode': 'userspace',
    '/status': '{"version":"0.0.7","draining":true}',
  })
  let ended = false
  const cleaning = usherIn(ns, ['cleanup']).then(result => {
    t.ok(ended, 'not before')
    return result
  })
  await sleep(3000)
  ended = true
  await end()
  const { code, out } = await cleaning
  t.equal(code, 0)
  t.match(out, 'an Usher is ending here; waiting for its connections\n')
  t.match(out, 'removed nftables table ip kube-proxy')
})

t.test(
  'an Usher without rules hides a kube-proxy, and is not waited for',
  options,
  async t => {
    const ns = await makeNetns('cl')
    await leaveSome(ns)
    const route = '--route=tcp://127.0.0.1:8080=127.0.0.1:1'
    const end = await runningIn(ns, [usherProgram, 'sidecar', route], /serving/)
    const before = await photograph(ns)
    const dry = await usherIn(ns, ['cleanup', '--dry-run'])
    t.match(dry, { code: 1, err: /chain KUBE-SERVICES stays: / })
    t.equal(await photograph(ns), before)
    const { code, out, err } = await usherIn(ns, ['cleanup'])
    t.equal(code, 1)
    t.notMatch(out, 'waiting for its connections')
    t.match(
      err,
      'an Usher without rules answers on port 10249, where a kube-proxy that runs here would',
    )
    t.match(err, 'iptables-legacy -t nat: chain KUBE-SERVICES stays: ')
    const left = await photograph(ns)
    t.match(left, 'KUBE-SERVICES')
    t.match(left, 'table ip kube-proxy')
    t.notMatch(left, /KUBE-USHER-|usher0/)
    const only = await usherIn(ns, ['cleanup', '--only-usher'])
    t.match(only, { code: 0, err: '' }, 'as it was asked to')
    await end()
    t.equal((await usherIn(ns, ['cleanup'])).code, 0)
    t.notMatch(await photograph(ns), 'KUBE-SERVICES')
  },
)

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
    t.match(err, /can't look for nftables tables: nft list chains ip: .*not permitted/i)
    t.match(err, /can't look for rules of iptables-legacy: .*permission denied/i)
    t.match(err, /device usher0 .* stays: .*not permitted/i)
    t.equal(await photograph(ns), before)
  },
)

/** Holds what an Usher with rules holds, and says who it is. */
const pretendUsher = (ns: Netns): Promise<() => Promise<void>> =>
  runningIn(ns, [
    '-e',
    `require('net').createServer(socket => socket.end('usher 0.0.7, pid 7\\n'))
      .listen('\\0usher-capture', () => console.log(1))`,
  ])

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
