import t from 'tap'
import { iptablesKind } from '../../../src/kernel/iptables/iptables-proxier.ts'
import type { Proxier } from '../../../src/kernel/proxier.ts'
import type { RunTool } from '../../../src/kernel/run-tool.ts'
import type { Change } from '../../../src/model/service.ts'
import { Registry } from '../../../src/model/registry.ts'
import type { IpFamily } from '../../../src/util/ip.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import {
  canonicalText,
  restore,
  type RuleSet,
} from '../../support/iptables-tracer/rule-set.ts'
import { makeNetnsShell } from '../../support/netns-shell.ts'
import { netnsProblem } from '../../support/netns.ts'
import { gone } from '../../support/objects.ts'
import { oneBackend } from './one-backend.ts'
import { changesOf, type ServiceKind, serviceKinds } from './service-kinds.ts'
import { checkPackets } from './packet-table.ts'
import { settingsOf, textOf, thisNode } from './golden-world.ts'

const why = await netnsProblem('iptables')
const skip = { skip: why !== '' && why }

type Backend = 'nft' | 'legacy'

const foreign = `*filter
:MY-FILTER - [0:0]
-A INPUT -p tcp -m tcp --dport 22 -j MY-FILTER
-A FORWARD -s 192.0.2.99 -j DROP
-A MY-FILTER -j RETURN
COMMIT
*nat
:MY-NAT - [0:0]
-A PREROUTING -j MY-NAT
COMMIT
`

const foreignOf = (family: IpFamily) =>
  family === 'IPv4' ? foreign : foreign.replace('192.0.2.99', '2001:db8:99::99')

const proxierIn = (run: RunTool, backend: Backend, family: IpFamily): Proxier => {
  const observer = {
    restoreFailed: () => t.fail('a restore failed'),
    failed: (what: string, reason: string) => t.equal(reason, '', what),
  }
  const proxier = iptablesKind({
    run: oneBackend(run, backend),
    clock: new FakeClock(),
    observer,
    backend,
  }).proxier(family)
  t.teardown(() => proxier.close())
  return proxier
}

const savedIn = async (run: RunTool, backend: Backend, family: IpFamily) => {
  const name = `${family === 'IPv4' ? 'iptables' : 'ip6tables'}-${backend}-save`
  return restore(await run(name, []))
}

/** Whose order among Services says nothing; the rule that must be last stays there. */
const shared = [
  'KUBE-SERVICES',
  'KUBE-NODEPORTS',
  'KUBE-EXTERNAL-SERVICES',
  'KUBE-PROXY-FIREWALL',
]

const inAnyOrder = (rules: RuleSet): RuleSet => {
  for (const table of ['filter', 'nat'])
    for (const name of shared) {
      const chain = rules.get(table)?.get(name)
      if (chain === undefined) continue
      const { rules: all } = chain
      const last = all.filter(({ text }) => text.endsWith('-j KUBE-NODEPORTS'))
      const kept = all.slice(0, all.length - last.length)
      chain.rules = [
        ...kept.toSorted((a, b) => (a.text < b.text ? -1 : 1)),
        ...all.slice(kept.length),
      ]
    }
  return rules
}

/** Numbers from 0 to `below` - 1, the same in each run. */
const randomFrom = (seed: number) => {
  let state = seed
  return (below: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

const numbers = [1, 2, 3, 4, 5]

/** One of the Services becomes another kind of Service, or goes, or comes. */
const nextStep = (
  world: Map<number, ServiceKind>,
  family: IpFamily,
  random: (below: number) => number,
): readonly Change[] => {
  const n = numbers[random(numbers.length)] ?? 1
  const kind = serviceKinds[random(serviceKinds.length + 2)]
  if (kind === undefined) {
    world.delete(n)
    return [gone('Service', `svc${n}`), gone('EndpointSlice', `svc${n}`)]
  }
  world.set(n, kind)
  return changesOf(kind, n, family)
}

for (const [backend, family] of [
  ['nft', 'IPv4'],
  ['legacy', 'IPv6'],
] as const)
  t.test(
    `after any changes the kernel has what a first sync writes (${backend}, ${family})`,
    skip,
    async t => {
      const run = await makeNetnsShell()
      const tool = `${family === 'IPv4' ? 'iptables' : 'ip6tables'}-${backend}-restore`
      await run(tool, [], { input: foreignOf(family) })
      let proxier = proxierIn(run, backend, family)
      const registry = new Registry({ nodeName: 'n1' })
      registry.apply([thisNode])
      const world = new Map<number, ServiceKind>()
      const random = randomFrom(7)
      const works = new Set<string>()
      for (let step = 0; step < 25; step += 1) {
        for (let many = random(3); many >= 0; many -= 1)
          registry.apply(nextStep(world, family, random))
        // A new process, which knows nothing of what is there.
        if (step === 12) proxier = proxierIn(run, backend, family)
        const masqueradeAll = step >= 20
        const settings = { masqueradeAll }
        const { work } = await proxier.sync(
          registry.snapshot(family),
          settingsOf(family, settings),
        )
        works.add(work)
        const changes = [...world].flatMap(([n, kind]) => changesOf(kind, n, family))
        const fresh = restore(
          textOf({ changes, family, settings }),
          restore(foreignOf(family)),
        )
        const rules = await savedIn(run, backend, family)
        const what = `step ${step}, ${work}: ${[...world].map(([n, { title }]) => `${n} ${title}`).join('; ')}`
        if (
          !t.equal(
            canonicalText(inAnyOrder(rules)),
            canonicalText(inAnyOrder(fresh)),
            what,
          )
        )
          return
        if (!masqueradeAll && step % 6 === 0)
          for (const [n, kind] of world) checkPackets(t, rules, kind, n, family)
      }
      t.ok(works.has('partial') && works.has('full'), [...works].join())
    },
  )

t.test('a sync counts the rules there are, and those that it wrote', skip, async t => {
  const run = await makeNetnsShell()
  const proxier = proxierIn(run, 'nft', 'IPv4')
  const registry = new Registry({ nodeName: 'n1' })
  const [first] = serviceKinds
  if (first === undefined) throw new Error('no kind')
  const put = (n: number) => registry.apply(changesOf(first, n, 'IPv4'))
  const sync = () => proxier.sync(registry.snapshot('IPv4'), settingsOf('IPv4'))
  registry.apply([thisNode])
  const base = { filter: { total: 4, written: 4 }, nat: { total: 5, written: 5 } }
  t.same(await sync(), { work: 'full', rules: base })
  put(1)
  put(2)
  const { work, rules } = await sync()
  t.equal(work, 'partial')
  // Of each: 3 VIPs, a node port, 2 of KUBE-EXT-, 1 + 2 of KUBE-SVC-, 2 for each endpoint.
  t.equal(rules?.nat.total, 5 + 2 * 13)
  put(3)
  const next = await sync()
  const { total = 0, written = 0 } = next.rules?.nat ?? {}
  t.equal(total, 5 + 3 * 13)
  t.ok(written < total)
  t.equal((await sync()).work, 'nothing')
})
