import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { spawn } from 'node:child_process'
import t from 'tap'
import {
  type IptablesDeps,
  iptablesSteering,
} from '../../../src/capture/iptables/iptables.ts'
import { type RunTool, ToolError } from '../../../src/kernel/run-tool.ts'
import type { IpFamily } from '../../../src/util/ip.ts'
import { systemClock } from '../../../src/util/clock.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import { makeNetns } from '../../support/netns.ts'
import { until } from '../../support/until.ts'
import { SteeredTable } from '../steered-table.ts'
import { manyRules, ruleOf, settingsOf } from './rules.ts'
import { skip } from './skip.ts'

const foreign = `*filter
:MINE - [0:0]
-A INPUT -p tcp -m tcp --dport 22 -j MINE
-A FORWARD -s 192.0.2.0/24 -j DROP
-A MINE -m comment --comment "to -j KUBE-USHER-INPUT" -j RETURN
COMMIT
*nat
:KUBE-SERVICES - [0:0]
-A PREROUTING -j KUBE-SERVICES
-A OUTPUT -j KUBE-SERVICES
-A KUBE-SERVICES -d 10.96.0.9/32 -p tcp -m tcp --dport 1 -j DNAT --to-destination 192.0.2.9:1
COMMIT
*mangle
-A PREROUTING -j MARK --set-xmark 0x1/0x1
COMMIT
`

/** Rules by iptables, of processes of their own. */
const tablesBy = (deps: IptablesDeps) => {
  const { probe, rules } = iptablesSteering(deps)
  const table = (family: IpFamily) => new SteeredTable(rules(family), family)
  return { probe, table }
}

const ready = async (backend: 'nft' | 'legacy') => {
  const { run, prefix } = await makeNetns(`ipt-${backend}`)
  const calls: { readonly command: string; readonly input: string }[] = []
  const recorded: RunTool = (command, args, options) => {
    calls.push({ command, input: options?.input ?? '' })
    return run(command, args, options)
  }
  const clock = new FakeClock()
  const tables = tablesBy({ run: recorded, clock, backend })
  const restore = (input: string, other = backend) =>
    run(`iptables-${other}-restore`, ['--noflush'], { input })
  const saved = async (other = backend) => {
    const text = await run(`iptables-${other}-save`, [])
    return text.split('\n').filter(line => !/^(?:#.*)?$/.test(line))
  }
  return {
    run,
    prefix,
    calls,
    clock,
    tables,
    table: tables.table('IPv4'),
    restore,
    saved,
  }
}

const isOurs = (line: string): boolean =>
  /^(?::|-A )KUBE-(?:USHER|PORTALS|NODEPORT)-|-j KUBE-(?:USHER|PORTALS|NODEPORT)-[A-Z-]+$/.test(
    line,
  )
const withoutCounters = (lines: readonly string[]) =>
  lines.map(line => line.replace(/\[\d+:\d+\]$/, ''))

for (const backend of ['nft', 'legacy'] as const) {
  t.test(`others' rules stay as they are (${backend})`, skip, async t => {
    const { tables, table, restore, saved } = await ready(backend)
    await restore(foreign)
    const before = withoutCounters(await saved())
    const others = async () =>
      withoutCounters(await saved()).filter(line => !isOurs(line))
    t.match(await tables.probe('IPv4'), { usable: true, detail: /^iptables 1\./ })
    t.same(
      withoutCounters(await saved()).toSorted(),
      before.toSorted(),
      'the probe left nothing',
    )
    await table.replace([ruleOf()], settingsOf('IPv4'))
    t.same((await others()).toSorted(), before.toSorted())
    await table.change([], [ruleOf({ port: 81, kind: 'NodePort' })])
    await table.hold()
    t.same((await others()).toSorted(), before.toSorted())
    await table.remove()
    t.same(withoutCounters(await saved()).toSorted(), before.toSorted())
    await table.remove()
    t.same(
      withoutCounters(await saved()).toSorted(),
      before.toSorted(),
      'and nothing is no error',
    )
  })

  t.test(
    `an earlier process's rules are replaced, jumps put right (${backend})`,
    skip,
    async t => {
      const { tables, table, restore, saved } = await ready(backend)
      await table.replace(manyRules(200), settingsOf('IPv4'))
      const fresh = async () => {
        const lines = withoutCounters(await saved())
        return lines.toSorted()
      }
      const next = tables.table('IPv4')
      await next.replace([ruleOf()], settingsOf('IPv4'))
      const wanted = await fresh()
      await restore(
        '*nat\n-F PREROUTING\n-A OUTPUT -j KUBE-NODEPORT-HOST\n-F KUBE-USHER-PORTALS\nCOMMIT\n',
      )
      t.not((await fresh()).join(), wanted.join())
      await next.replace([ruleOf()], settingsOf('IPv4'))
      t.same(await fresh(), wanted)
    },
  )

  t.test(`a change sends what changed, in one command (${backend})`, skip, async t => {
    const { table, calls, saved } = await ready(backend)
    const rules = manyRules(300)
    await table.replace(rules, settingsOf('IPv4'))
    calls.length = 0
    const [first = ruleOf()] = rules
    const moved = { ...first, to: { ...first.to, port: 7 } }
    await table.change([first], [moved])
    await table.change([moved], [moved])
    t.equal(calls.length, 1)
    t.match(calls[0]?.input, /^\*nat\n-D [^\n]+:1024\n-A [^\n]+:7\nCOMMIT\n$/)
    const there = (await saved()).filter(line => line.includes(' 10.96.0.0/32 '))
    t.equal(there.length, 2)
    t.match(there.join(), '--to-destination 169.254.77.88:7')
  })

  t.test(`many new rules are spread anew by themselves (${backend})`, skip, async t => {
    const { table, saved } = await ready(backend)
    await table.replace([], settingsOf('IPv4'))
    await table.change([], manyRules(600))
    const lines = (await saved()).filter(line => line.includes('DNAT --to'))
    const chains = new Map<string, number>()
    for (const line of lines) {
      const chain = line.split(' ')[1] ?? ''
      chains.set(chain, (chains.get(chain) ?? 0) + 1)
    }
    t.equal(lines.length, 600)
    t.ok(Math.max(...chains.values()) <= 64)
  })

  t.test(
    `what somebody breaks is seen, Usher's own work is not (${backend})`,
    skip,
    async t => {
      const { table, clock, restore } = await ready(backend)
      const heard: string[] = []
      const rules = manyRules(100)
      const stop = table.watch(what => heard.push(what))
      t.teardown(stop)
      const look = async () => {
        heard.length = 0
        // In steps, so that no time passes while it looks.
        for (let step = 0; step < 16; step++) {
          clock.advance(250)
          await until('the look is over', () => clock.waiting === 1)
        }
        return heard[0] ?? ''
      }
      t.equal(await look(), '', 'nothing is there yet')
      await table.replace(rules, settingsOf('IPv4'))
      t.equal(await look(), '')
      const running = table.change(rules.slice(0, 50), [])
      t.equal(await look(), '')
      await running
      await table.hold()
      t.equal(await look(), '')
      const part = (await restore('*nat\n-S KUBE-USHER-PORTALS\nCOMMIT\n')).match(
        /KUBE-USHER-P\d+/,
      )?.[0]
      const breaks = [
        [
          '*nat\n-F PREROUTING\nCOMMIT\n',
          /jump from PREROUTING to KUBE-PORTALS-CONTAINER is gone/,
        ],
        [
          '*nat\n-R PREROUTING 1 -p tcp -m comment --comment "handle ClusterIPs; NOTE: this must be before the NodePort rules" -j KUBE-PORTALS-CONTAINER\nCOMMIT\n',
          /jump from PREROUTING to KUBE-PORTALS-CONTAINER is gone/,
        ],
        ['*filter\n-F\n-X\nCOMMIT\n', /gone \(table filter\)/],
        [
          '*filter\n-D KUBE-USHER-INPUT 1\nCOMMIT\n',
          /KUBE-USHER-INPUT of table filter has 4 rules instead of 5/,
        ],
        [`*nat\n-F ${part}\nCOMMIT\n`, new RegExp(`${part} of table nat has 0 rules`)],
      ] as const
      for (const [input, what] of breaks) {
        await restore(input)
        t.match(await look(), what)
        await table.replace(rules, settingsOf('IPv4'))
        t.equal(await look(), '', 'whole again')
      }
      stop()
      t.equal(clock.waiting, 0)
    },
  )
}

t.test('health check ports are let in, and no longer when they go', skip, async t => {
  const { table, saved } = await ready('nft')
  const has = async (port: number) =>
    (await saved()).includes(
      `-A KUBE-NODEPORT-NON-LOCAL -p tcp -m tcp --dport ${port} -j ACCEPT`,
    )
  const withPorts = (...healthCheckPorts: number[]) =>
    table.sync([ruleOf()], settingsOf('IPv4', { healthCheckPorts }))
  t.same(await withPorts(32_000), { work: 'full' })
  t.same(await withPorts(32_000), { work: 'nothing' })
  t.equal(await has(32_000), true)
  t.same(await withPorts(32_001), { work: 'full' }, 'as all settings do')
  t.same([await has(32_000), await has(32_001)], [false, true])
})

t.test('rules of the other back end go when this one takes over', skip, async t => {
  const { run, tables, saved, restore } = await ready('nft')
  const legacy = tablesBy({ run, clock: systemClock, backend: 'legacy' })
  await restore(foreign, 'legacy')
  const before = withoutCounters(await saved('legacy'))
  await legacy.table('IPv4').replace([ruleOf()], settingsOf('IPv4'))
  t.not(withoutCounters(await saved('legacy')).length, before.length)
  await tables.table('IPv4').replace([ruleOf()], settingsOf('IPv4'))
  t.same(withoutCounters(await saved('legacy')), before)
  await legacy.table('IPv4').replace([ruleOf()], settingsOf('IPv4'))
  await tables.table('IPv4').remove()
  t.same(withoutCounters(await saved('legacy')), before, 'remove looks at both')
})

t.test("the back end is the system's, or the one kubelet uses", skip, async t => {
  const { run, restore } = await ready('nft')
  const auto = tablesBy({ run, clock: systemClock })
  const { detail } = await auto.probe('IPv4')
  t.match(detail, /\((?:nf_tables|legacy)\)$/)
  const [other, word] = detail.includes('nf_tables')
    ? (['legacy', '(legacy)'] as const)
    : (['nft', '(nf_tables)'] as const)
  await restore('*mangle\n:KUBE-KUBELET-CANARY - [0:0]\nCOMMIT\n', other)
  t.match(await auto.probe('IPv4'), { usable: true, detail: word })
})

t.test(
  'a lock that is held is waited for, then named, and nothing is written',
  skip,
  async t => {
    const { run, saved } = await ready('legacy')
    const directory = await mkdtemp(join(tmpdir(), 'usher-lock-'))
    t.teardown(() => rm(directory, { recursive: true }))
    const lock = join(directory, 'xtables.lock')
    const locked: RunTool = (command, args, options) =>
      run('env', [`XTABLES_LOCKFILE=${lock}`, command, ...args], options)
    const tables = tablesBy({ run: locked, clock: systemClock, backend: 'legacy' })
    const table = tables.table('IPv4')
    await table.replace([], settingsOf('IPv4'))
    const before = await saved()
    const holder = spawn('sh', ['-c', 'exec flock "$0" cat', lock], {
      stdio: ['pipe', 'ignore', 'inherit'],
    })
    t.teardown(() => holder.kill())
    await until('the lock is held', () =>
      run('flock', ['--nonblock', lock, 'true']).then(
        () => false,
        () => true,
      ),
    )
    const error = await table.replace([ruleOf()], settingsOf('IPv4')).catch(e => e)
    t.ok(error instanceof ToolError)
    t.match(error.message, /iptables-legacy-restore .*xtables\.lock/)
    t.same(await saved(), before)
    const waits = table.replace([ruleOf()], settingsOf('IPv4'))
    holder.stdin?.end()
    await waits
    t.ok((await saved()).some(line => line.includes('10.96.0.1/32')))
  },
)

t.test('why it can not be had is told in one line', skip, async t => {
  const { run } = await ready('nft')
  const probeBy = (by: RunTool) => tablesBy({ run: by, clock: systemClock }).probe('IPv4')
  const nobody: RunTool = (command, args, options) =>
    run('setpriv', ['--reuid=65534', '--clear-groups', command, ...args], options)
  const denied = await probeBy(nobody)
  t.equal(denied.usable, false)
  t.match(
    denied.detail,
    /^[^\n]*iptables-restore[^\n]*(?:Permission denied|must be root)[^\n]*$/,
  )
  const missing: RunTool = command =>
    Promise.reject(new ToolError(`${command}: not found; install it`, 'missing', ''))
  t.same(await probeBy(missing), {
    usable: false,
    detail: 'iptables-restore: not found; install it',
  })
  await tablesBy({ run: missing, clock: systemClock }).table('IPv4').remove()
})

t.test('a lock that is held says nothing against a back end', async t => {
  // The system's choice is locked; the other back end would work.
  const run: RunTool = async (command, args) => {
    const isLegacy = command.includes('legacy')
    if (args.includes('--version'))
      return `iptables-restore v1.8.9 (${isLegacy ? 'nf_tables' : 'legacy'})\n`
    if (isLegacy || command === 'cat' || command.endsWith('-save')) return ''
    const text = "Can't lock /run/xtables.lock: Resource temporarily unavailable"
    throw new ToolError(`${command}: ${text}`, 'failed', text)
  }
  const tables = tablesBy({ run, clock: systemClock })
  t.match(await tables.probe('IPv4'), {
    usable: true,
    detail: /^iptables 1\.8\.9 \(legacy\), not tried: .*lock/,
  })
})
