import t from 'tap'
import { iptablesSteering } from '../../../src/capture/iptables/iptables.ts'
import { type RunTool, ToolError } from '../../../src/kernel/run-tool.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import { makeNetns } from '../../support/netns.ts'
import { until } from '../../support/until.ts'
import { SteeredTable } from '../steered-table.ts'
import { ruleOf, settingsOf } from './rules.ts'
import { skip } from './skip.ts'

const chains = {
  filter: ['INPUT', 'FORWARD', 'OUTPUT'],
  nat: ['PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING'],
}

/** So that all of iptables' own chains are there before. */
const foreign = Object.entries(chains)
  .map(([table, names]) => {
    const rules = names.map(name => `-A ${name} -p udp -m udp --dport 9 -j MINE\n`)
    return `*${table}\n:MINE - [0:0]\n${rules.join('')}COMMIT\n`
  })
  .join('')

const natives = [
  'insert rule ip filter INPUT ct state established accept',
  'add rule ip filter OUTPUT log prefix "x"',
  'add rule ip nat PREROUTING fib daddr type local counter',
  'insert rule ip nat OUTPUT meta mark set 1',
  'add rule ip nat MINE ct state new accept',
]

for (const hasNft of [true, false])
  for (const when of ['before the start', 'while it runs'])
    t.test(`rules of nft's ${when}${hasNft ? '' : ', without nft'}`, skip, async t => {
      const { run } = await makeNetns('unr')
      const tools: RunTool = (command, ...rest) =>
        command === 'nft' && !hasNft
          ? Promise.reject(new ToolError('nft: not found', 'missing', ''))
          : run(command, ...rest)
      const clock = new FakeClock()
      const kind = iptablesSteering({ run: tools, clock, backend: 'nft' })
      const makeTable = () => new SteeredTable(kind.rules('IPv4'), 'IPv4')
      const table = makeTable()
      const ruleset = async () =>
        (await run('nft', ['-s', 'list', 'ruleset'])).split('\n').toSorted()
      await run('iptables-nft-restore', ['--noflush'], { input: foreign })
      const mix = () => run('nft', ['-f', '-'], { input: natives.join('\n') })
      const rules = [
        ruleOf(),
        ruleOf({ kind: 'NodePort', address: undefined, port: 30_080 }),
      ]
      const heard: string[] = []
      const stop = table.watch(what => heard.push(what))
      t.teardown(stop)
      if (when === 'before the start') await mix()
      const before = await ruleset()
      await table.replace(rules, settingsOf('IPv4'))
      if (when === 'while it runs') await mix()
      const written = await ruleset()
      for (let looks = 0; looks < 3; looks++) {
        await until('a look', () => clock.waiting === 1)
        clock.advance(4000)
      }
      await until('a look', () => clock.waiting === 1)
      t.same(heard, [], 'which is no damage')
      t.match(
        table.rules
          .problems()
          .map(({ object }) => object)
          .toSorted(),
        ['iptables table ip filter', 'iptables table ip nat'],
      )
      // A rule that is in front of everything and can't be read hides what is behind it.
      const isBlind = !hasNft
      for (const each of [table, makeTable()]) {
        await each.replace(rules, settingsOf('IPv4'))
        if (!isBlind) t.same(await ruleset(), written, 'nothing is there twice')
      }
      const once = await ruleset()
      await table.replace(rules, settingsOf('IPv4'))
      t.same(await ruleset(), once, 'nor more often')
      await run('iptables-nft', ['-t', 'nat', '-F', 'KUBE-PORTALS-HOST'])
      await until('a look', () => clock.waiting === 1)
      clock.advance(4000)
      await until('the damage', () => heard.length > 0)
      t.match(heard[0], 'KUBE-PORTALS-HOST')
      if (isBlind) {
        await t.rejects(table.remove(), /stay: a rule leads there that iptables/)
        t.notMatch((await ruleset()).join('\n'), /dnat to|jump KUBE-USHER/)
        return
      }
      await table.remove()
      const mixed =
        when === 'while it runs' ? natives.map(each => each.split(' rule ')[1]) : []
      const left = await ruleset()
      t.equal(left.length, before.length + mixed.length)
      t.notMatch(left.join('\n'), /KUBE-/)
      if (mixed.length === 0) t.same(left, before, 'others’ rules are as they were')
    })
