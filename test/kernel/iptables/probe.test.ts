import { mkdtemp, rm } from 'node:fs/promises'
import { spawn } from 'node:child_process'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { iptablesKind } from '../../../src/kernel/iptables/iptables-proxier.ts'
import { type RunTool, ToolError } from '../../../src/kernel/run-tool.ts'
import { ipFamilies } from '../../../src/util/ip.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import { makeNetnsShell } from '../../support/netns-shell.ts'
import { until } from '../../support/until.ts'
import {
  backends,
  makeWorld,
  rulesOf,
  service,
  settings,
  skip,
  snapshotOf,
} from './world.ts'

const observer = { restoreFailed: () => {}, failed: () => {} }
const clock = new FakeClock()

for (const backend of backends)
  for (const family of ipFamilies)
    t.test(
      `${backend}: a probe of ${family} leaves nothing behind`,
      { skip },
      async t => {
        const run = await makeNetnsShell()
        const { usable, detail } = await iptablesKind({
          run,
          clock,
          observer,
          backend,
        }).probe(family)
        t.equal(usable, true, detail)
        t.match(
          detail,
          backend === 'nft' ? /^ip6?tables .* \(nf_tables\)$/ : /\(legacy\)$/,
        )
        const tool = family === 'IPv4' ? 'iptables' : 'ip6tables'
        const saved = rulesOf(await run(`${tool}-${backend}-save`, []))
        t.same(
          saved.filter(line => /^-A|KUBE/.test(line)),
          [],
        )
      },
    )

t.test('a probe names what the kernel does not have', { skip }, async t => {
  const run = await makeNetnsShell()
  const without: RunTool = async (command, args, options) => {
    const input = options?.input ?? ''
    if (/-m (recent|statistic) |-j REJECT/.test(input))
      throw new ToolError('iptables-restore: line 9 failed', 'failed', 'line 9 failed')
    return run(command, args, options)
  }
  const probe = await iptablesKind({ run: without, clock, observer }).probe('IPv4')
  t.equal(probe.usable, false)
  for (const part of ['match recent', 'match statistic', 'target REJECT'])
    t.match(probe.detail, part)
  t.notMatch(probe.detail, /comment|DNAT|conntrack/)
})

t.test('a probe says that there is no IPv6', { skip }, async t => {
  const run = await makeNetnsShell()
  const without: RunTool = async (command, args, options) => {
    if (args.includes('/proc/net/if_inet6')) throw new ToolError('no file', 'failed', '')
    return run(command, args, options)
  }
  const kind = iptablesKind({ run: without, clock, observer })
  t.same(await kind.probe('IPv6'), { usable: false, detail: 'the kernel has no IPv6' })
  t.equal((await kind.probe('IPv4')).usable, true)
})

t.test('a tool that is missing is not taken for missing IPv6', { skip }, async t => {
  const run = await makeNetnsShell()
  const without: RunTool = async (command, args, options) => {
    if (command === 'cat') throw new ToolError('cat: not found', 'missing', '')
    return run(command, args, options)
  }
  const kind = iptablesKind({ run: without, clock, observer })
  t.match(await kind.probe('IPv6'), { usable: false, detail: /cat: not found/ })
})

t.test('a probe without iptables says what to install', async t => {
  const run: RunTool = async command => {
    throw new ToolError(`${command}: not found; install it`, 'missing', '')
  }
  const probe = await iptablesKind({ run, clock, observer }).probe('IPv4')
  t.same(probe, { usable: false, detail: 'iptables-restore: not found; install it' })
})

t.test('--random-fully is left out where there is none', { skip }, async t => {
  const world = await makeWorld({
    around: run => async (command, args, options) => {
      if (options?.input?.includes('--random-fully') === true)
        throw new ToolError('unknown option', 'failed', 'unknown option')
      return run(command, args, options)
    },
  })
  await world.proxier.sync(snapshotOf([]), settings)
  t.match(await world.save('nat'), /requiring SNAT" -j MASQUERADE\n/)
})

t.test(
  'invalid packets are not dropped where conntrack is liberal',
  { skip },
  async t => {
    const world = await makeWorld()
    const file = '/proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal'
    await world.run('sh', ['-c', `echo 1 > ${file}`])
    await world.proxier.sync(snapshotOf([]), settings)
    t.notMatch(await world.save('filter'), 'INVALID')
    await world.run('sh', ['-c', `echo 0 > ${file}`])
    world.proxier.forget()
    await world.proxier.sync(snapshotOf([]), settings)
    t.match(
      await world.save('filter'),
      /-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP/,
    )
  },
)

t.test('the lock is waited for', { skip }, async t => {
  const directory = await mkdtemp(join(tmpdir(), 'usher-xtables-'))
  t.teardown(() => rm(directory, { recursive: true }))
  const lock = join(directory, 'lock')
  const world = await makeWorld({
    backend: 'legacy',
    around: run => (command, args, options) =>
      run('env', [`XTABLES_LOCKFILE=${lock}`, command, ...args], options),
  })
  const holder = spawn('sh', ['-c', 'flock "$0" sh -c "echo held; sleep 1"', lock])
  let held = false
  let ended = false
  holder.stdout.on('data', () => (held = true))
  holder.once('close', () => (ended = true))
  await until('the lock to be held', () => held)
  const syncing = world.proxier.sync(
    snapshotOf([service('web', 1, ['10.1.0.1'])]),
    settings,
  )
  t.equal((await syncing).work, 'full')
  t.equal(ended, true)
})

t.test("chains are told to be this kind's by whole names", async t => {
  const { owns } = iptablesKind({ run: () => Promise.resolve(''), clock, observer })
  t.equal(owns.ipvs, false)
  t.ok(owns.chain('nat', 'KUBE-SVC-4SW47YFZTEDKD3PK'))
  t.ok(owns.chain('nat', 'KUBE-XLB-4SW47YFZTEDKD3PK'))
  t.ok(owns.chain('filter', 'KUBE-PROXY-FIREWALL'))
  t.ok(owns.chain('mangle', 'KUBE-PROXY-CANARY'))
  t.ok(owns.chain('filter', 'KUBE-FIREWALL'))
  t.notOk(owns.chain('nat', 'KUBE-FIREWALL'))
  t.notOk(owns.chain('nat', 'KUBE-NODE-PORT'))
  t.notOk(owns.chain('nat', 'KUBE-PORTALS-HOST'))
  t.notOk(owns.chain('filter', 'KUBE-SVC-4SW47YFZTEDKD3PK'))
  t.notOk(owns.chain('nat', 'KUBE-SVC-short'))
})
