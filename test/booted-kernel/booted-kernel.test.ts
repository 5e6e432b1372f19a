import t from 'tap'
import { whyNoMachine } from './kernel.ts'
import { startMachine } from './machine.ts'
import './parts/packages.ts'
import { addressState } from './parts/address-state.ts'
import { iptablesModules, nftablesModules } from './parts/netfilter.ts'
import { makeNetwork } from './parts/network.ts'
import { reachesAll } from './parts/reach.ts'
import { manifests } from './parts/services.ts'
import { askUsher, runUsher } from './parts/usher.ts'

const why = whyNoMachine()
// A minute or two where the processors are free; an emulated one suffers most from sharing.
const timeout = 560_000
t.setTimeout(timeout)

t.test('a booted kernel', { skip: why !== '' && why, timeout }, async t => {
  const machine = await startMachine(t)
  const hosts = await makeNetwork(machine)
  const before = await addressState(machine)

  await t.test('has no netfilter', async t => {
    const modules = await machine.run('cat', '/proc/modules')
    t.notMatch(modules, /^(nf|ip6?_?table|x_tables|xt_|ip_vs)/m)
    t.not((await machine.try('nft', 'list', 'ruleset')).code, 0)
    t.not((await machine.try('iptables-legacy', '-t', 'nat', '-S')).code, 0)
  })

  await t.test('`usher check` says that auto takes local, and why', async t => {
    const { code, out } = await askUsher(machine, 'check')
    t.equal(code, 0)
    t.match(out, /^capture +nftables +not usable +nft .*Protocol not supported/m)
    t.match(out, /^capture +iptables +not usable +iptables.*Protocol not supported/m)
    t.match(out, /^capture +local +usable/m)
    t.match(out, '--capture auto takes local here')
  })

  await t.test('without netfilter is served by local', async t => {
    const usher = await runUsher(machine, manifests())
    t.equal(usher.capture, 'local')
    t.not(await addressState(machine), before)
    await reachesAll(t, hosts)
    t.equal(await usher.end(), 0)
    t.equal(await addressState(machine), before, 'no route or address is left')
  })

  await t.test('with iptables only is served by its rules', async t => {
    await machine.load(...iptablesModules)
    const usher = await runUsher(machine, manifests())
    t.equal(usher.capture, 'iptables')
    await reachesAll(t, hosts)
    t.equal(await usher.end(), 0)
    t.notMatch(await machine.run('iptables-legacy-save'), /usher|KUBE/i)
    t.equal(await addressState(machine), before, 'no route or address is left')
  })

  await t.test('with nftables is served by its rules', async t => {
    await machine.load(...nftablesModules)
    const usher = await runUsher(machine, manifests())
    t.equal(usher.capture, 'nftables')
    await reachesAll(t, hosts)
    t.equal(await usher.end(), 0)
    t.equal(await machine.run('nft', 'list', 'ruleset'), '', 'no rule is left')
    t.equal(await addressState(machine), before, 'no route or address is left')
  })
})
