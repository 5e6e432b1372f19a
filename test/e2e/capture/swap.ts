import type { Test } from 'tap'
import type { RunTool } from '../../../src/kernel/run-tool.ts'
import { iptablesRules } from './kube-proxy-iptables.ts'
import { nftablesRules } from './kube-proxy-nftables.ts'
import { type KubeProxyRules, startKubeProxyPart } from './kube-proxy-part.ts'
import { nothingFailed } from './nothing-failed.ts'
import { objectsOf } from './objects.ts'
import { serviceNamed } from './services.ts'
import { makeStage } from './stage.ts'
import { underLoad } from './under-load.ts'
import type { VipName } from './vips.ts'
import { isOfKernel, type Way } from './ways.ts'

/** Node ports of loopback are not what is asked here. */
const isForAll = (vip: VipName): boolean => vip !== 'node port, loopback'

/** What a kubelet up to 1.27 has made. */
const kubelets = `*mangle
:KUBE-KUBELET-CANARY - [0:0]
:KUBE-IPTABLES-HINT - [0:0]
COMMIT
*nat
:KUBE-KUBELET-CANARY - [0:0]
:KUBE-MARK-DROP - [0:0]
-A KUBE-MARK-DROP -j MARK --or-mark 0x8000
COMMIT
*filter
:KUBE-KUBELET-CANARY - [0:0]
:KUBE-FIREWALL - [0:0]
-A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m comment --comment "block incoming localnet connections" -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP
-I INPUT -j KUBE-FIREWALL
-I OUTPUT -j KUBE-FIREWALL
COMMIT
`

const isKubelets = (line: string): boolean =>
  /KUBE-(KUBELET-CANARY|IPTABLES-HINT|FIREWALL|MARK-DROP)/.test(line)

/** Such a kubelet has them as well, so that they are nobody's alone, and stay. */
const isShared = (line: string): boolean => /KUBE-(MARK-MASQ|POSTROUTING)/.test(line)

/** Of kube-proxy's iptables mode, and the kubelet. */
const chainsOf = async (run: RunTool, program: string): Promise<string[]> =>
  (await run(`${program}-save`, []))
    .replaceAll(/^#.*\n/gm, '')
    .replaceAll(/\[\d+:\d+\]/g, '')
    .split('\n')
    .filter(line => line.includes('KUBE-'))
    .toSorted()

/** Of kube-proxy's nftables mode. */
const tablesOf = async (run: RunTool): Promise<string> => {
  const all = await run('nft', ['-s', 'list', 'ruleset'])
  return Array.from(
    all.matchAll(/^table ip6? kube-proxy \{.*?^\}/gms),
    ([table]) => table,
  ).join('\n')
}

/** From kube-proxy to Usher and back, with clients that never stop. */
export const swapUnderLoad = async (
  t: Test,
  way: Way,
  mode: KubeProxyRules['mode'] = 'iptables',
): Promise<void> => {
  const stage = await makeStage(t, way)
  const { net, agents, manifests } = stage
  const { run } = net.node
  const plain = serviceNamed('plain')
  const program = `iptables-${way.backEnd}`
  await manifests.write(...objectsOf([plain]))
  await run(`${program}-restore`, ['--noflush'], { input: kubelets })
  const rules =
    mode === 'nftables'
      ? nftablesRules(run, plain)
      : iptablesRules(run, way.backEnd, plain)
  const start = () => startKubeProxyPart(t, net.node, rules)
  const chains = async () =>
    (await chainsOf(run, program)).filter(line => mode === 'iptables' || !isShared(line))
  const ofKubelet = async () => (await chains()).filter(isKubelets)
  const asKubelet = await ofKubelet()
  let kubeProxy = await start()
  const asKubeProxy = [await chains(), await tablesOf(run)]
  const flags = isOfKernel(way) ? [] : ['--keep-rules']

  let usher = undefined as ReturnType<typeof stage.start> | undefined
  await t.test('kube-proxy -> Usher', async t => {
    const load = await underLoad(
      agents,
      async () => {
        await kubeProxy.end()
        usher = stage.start(...flags)
        await usher.ready()
      },
      { isDialled: isForAll },
    )
    t.comment(`kube-proxy ${mode} -> ${way.label}: ${load.text}`)
    nothingFailed(t, load)
    t.strictSame(await ofKubelet(), asKubelet, 'what is the kubelet’s stays')
    t.equal(await tablesOf(run), '', 'kube-proxy’s tables are gone')
  })
  await t.test('Usher -> kube-proxy', async t => {
    let said = ''
    const load = await underLoad(
      agents,
      async () => {
        usher?.send('SIGTERM')
        kubeProxy = await start()
        await usher?.exit
        said = await stage.cleanUp()
      },
      { isDialled: isForAll },
    )
    t.comment(`${way.label} -> kube-proxy ${mode}: ${load.text}\n${said}`)
    t.match(said, `a proxy in mode ${mode} serves this node`)
    nothingFailed(t, load)
    t.strictSame(
      [await chains(), await tablesOf(run)],
      asKubeProxy,
      'what is kube-proxy’s and the kubelet’s is as it was, and there is no more',
    )
    t.notMatch((await stage.now()).all, /table ip6? usher|USHER-|usher0|169\.254\.77\.88/)
    t.notMatch(await stage.cleanUp(), /removed/, 'a second time there is nothing')
  })
  await t.test('a kube-proxy that is gone for good', async t => {
    await kubeProxy.end()
    const said = await stage.cleanUp()
    t.match(said, mode === 'nftables' ? /table ip kube-proxy/ : /KUBE-SERVICES/)
    t.notMatch((await stage.now()).all, /KUBE-SERVICES|kube-proxy/)
    t.strictSame(await ofKubelet(), asKubelet, 'what is the kubelet’s stays')
  })
}
