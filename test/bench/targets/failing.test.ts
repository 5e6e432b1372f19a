import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { once } from 'node:events'
import { join } from 'node:path'
import t from 'tap'
import type { Endpoint } from '../../../bench/services.ts'
import { haproxyTarget, planSlots } from '../../../bench/targets/haproxy.ts'
import { nginxTarget } from '../../../bench/targets/nginx.ts'
import { ProxyProcess, startProxy } from '../../../bench/targets/proxy.ts'
import { usherModeTarget, usherTarget } from '../../../bench/targets/usher.ts'
import { until } from '../../support/until.ts'
import { here, hostOnly, isAlive, lane, workDirectory } from './pods.ts'

const noSignal = new AbortController().signal
const services = [
  { name: 'http', protocol: 'TCP', endpoints: [{ address: '127.0.0.1', port: 1 }] },
] as const
const order = { services, lane, client: here, workDir: '/nowhere', signal: noSignal }

t.test('what is not installed is left out by name', async t => {
  const haproxy = haproxyTarget({ command: 'no-such-haproxy' })
  t.match(
    await haproxy.unsupportedReason(hostOnly),
    /no-such-haproxy.*Debian package haproxy/,
  )
  const nginx = nginxTarget('no-such-nginx')
  t.match(await nginx.unsupportedReason(hostOnly), /no-such-nginx.*Debian package nginx/)
})

t.test(
  'captures that change a host are left out where there is only this one',
  async t => {
    for (const capture of ['nftables', 'iptables', 'local'] as const) {
      const target = usherTarget({ name: 'usher', capture })
      t.match(await target.unsupportedReason(hostOnly), /needs network namespaces/)
    }
  },
)

t.test('so are the kernel modes', async t => {
  for (const mode of ['nftables', 'iptables', 'ipvs'] as const) {
    const target = usherModeTarget(mode)
    t.equal(target.name, `usher-mode-${mode}`)
    t.match(await target.unsupportedReason(hostOnly), /needs network namespaces/)
  }
})

const hasIpvs = existsSync('/proc/net/ip_vs') && 'this kernel has ip_vs'

t.test('a kernel without ip_vs is named', { skip: hasIpvs }, async t => {
  const target = usherModeTarget('ipvs')
  t.match(
    await target.unsupportedReason({ kind: 'namespaces' }),
    /^no ip_vs in this kernel/,
  )
})

t.test('a target that dies says its last words', async t => {
  const workDir = await workDirectory(t)
  const command = [process.execPath, '-e', 'console.error("no, thanks"); process.exit(3)']
  const target = usherTarget({ name: 'mine', capture: 'listen', command })
  await t.rejects(target.start({ ...order, workDir }), /mine ended: no, thanks/)
})

t.test('one that can not be started says why', async t => {
  const workDir = await workDirectory(t)
  const target = haproxyTarget({ command: 'no-such-haproxy' })
  await t.rejects(
    target.start({ ...order, workDir }),
    /haproxy ended: spawn no-such-haproxy ENOENT/,
  )
})

const haproxyMissing = (await haproxyTarget().unsupportedReason(hostOnly)) || false

t.test('one whose port is taken says so', { skip: haproxyMissing }, async t => {
  const directory = await workDirectory(t)
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as { port: number }
  const file = join(directory, 'haproxy.cfg')
  await writeFile(
    file,
    `defaults\n mode tcp\n timeout connect 1s\n timeout client 1s\n timeout server 1s\n` +
      `listen x\n bind 127.0.0.1:${port}\n`,
  )
  const proxy = {
    name: 'haproxy',
    argv: ['haproxy', '-db', '-f', file],
    config: '',
    addresses: new Map([['http', { address: '127.0.0.1', port }]]),
    directory,
  }
  // Somebody serves there, but not the one who was started.
  await t.rejects(startProxy(order, proxy), /haproxy ended:.*cannot bind socket/s)
})

t.test('one that does not end by itself is killed with its children', async t => {
  const program = `
    process.on('SIGTERM', () => {})
    require('node:child_process').spawn(process.execPath, ['-e', 'setTimeout(() => {}, 1e6)'])
    setTimeout(() => {}, 1e6)`
  const stubborn = new ProxyProcess(here, [process.execPath, '-e', program])
  await until('it has a child', () => stubborn.pids().length === 2)
  const pids = stubborn.pids()
  await stubborn.stop(200)
  await until('both are gone', () => !pids.some(isAlive))
  t.match(stubborn.complaint(), /ended \(SIGKILL\)/)
})

const [a, b, c] = [1, 2, 3].map(port => ({ address: '10.0.0.1', port })) as [
  Endpoint,
  Endpoint,
  Endpoint,
]

t.test('HAProxy is told only what changes, arrivals first', async t => {
  const plan = planSlots('web', [a, b, undefined, undefined], [b, c])
  t.same(plan.slots, [c, b, undefined, undefined])
  t.same(plan.commands, [
    'set server web/s1 addr 10.0.0.1 port 3',
    'set server web/s1 state ready',
  ])
  t.same(planSlots('web', [a, b], [b, a]).commands, [])
  t.same(planSlots('web', [a, b], [b]).commands, ['set server web/s1 state maint'])
  t.throws(() => planSlots('web', [a], [a, b]), /web has 1 servers, not 2/)
})
