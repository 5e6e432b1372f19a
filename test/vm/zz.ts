import t from 'tap'
import { startMachine } from './machine.ts'
import { makeNetwork } from './parts/network.ts'
import { reachesAll } from './parts/reach.ts'
import { manifests } from './parts/services.ts'
import { askUsher, runUsher } from './parts/usher.ts'
import { iptablesModules, nftablesModules } from './parts/netfilter.ts'
t.setTimeout(600000)
t.test('x', async t => {
  let m = await startMachine(t)
  const hosts = await makeNetwork(m)
  for (const x of ['iptables','nftables']) {
    if (x === 'iptables') await m.load(...iptablesModules)
    if (x === 'nftables') await m.load(...nftablesModules)
    console.error((await askUsher(m, 'check')).out)
  const usher = await runUsher(m, manifests())
  if (x === usher.capture) await reachesAll(t, hosts)
  console.error(await usher.end(), await m.run('date'), (usher as any).log ? (await (usher as any).log()).text.split('\n').slice(-30).join('\n').slice(-3500):'')
  console.error(usher.capture, await m.try('iptables-legacy-save'), await m.try('nft', 'list', 'ruleset'))
  }
})
