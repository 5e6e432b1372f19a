import type { Test } from 'tap'
import type { RunTool } from '../../../src/kernel/run-tool.ts'
import { nothingFailed } from './nothing-failed.ts'
import { objectsOf } from './objects.ts'
import { type KubeProxyPart, startKubeProxyPart } from './kube-proxy-part.ts'
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

const plainText = async (run: RunTool, program: string): Promise<string[]> =>
  (await run(`${program}-save`, []))
    .replaceAll(/^#.*\n/gm, '')
    .replaceAll(/\[\d+:\d+\]/g, '')
    .split('\n')
    .filter(line => line.includes('KUBE-'))

/** From kube-proxy to Usher and back, with clients that never stop. */
export const swapUnderLoad = async (t: Test, way: Way): Promise<void> => {
  const stage = await makeStage(t, way)
  const { net, agents, manifests } = stage
  const { run } = net.node
  const plain = serviceNamed('plain')
  const program = `iptables-${way.backEnd}`
  await manifests.write(...objectsOf([plain]))
  await run(`${program}-restore`, ['--noflush'], { input: kubelets })
  const start = (): Promise<KubeProxyPart> =>
    startKubeProxyPart(t, net.node, way.backEnd, plain)
  const ofKubelet = async (): Promise<string[]> =>
    (await plainText(run, program)).filter(line =>
      /KUBE-(KUBELET-CANARY|IPTABLES-HINT|FIREWALL|MARK-DROP)/.test(line),
    )
  const first = await start()
  const [asKubeProxy, asKubelet] = [await plainText(run, program), await ofKubelet()]
  const flags = isOfKernel(way) ? [] : ['--keep-rules']

  let usher = undefined as ReturnType<typeof stage.start> | undefined
  await t.test('kube-proxy -> Usher', async t => {
    const load = await underLoad(
      agents,
      async () => {
        await first.end()
        usher = stage.start(...flags)
        await usher.ready()
      },
      20_000,
      isForAll,
    )
    t.comment(`${way.label}, kube-proxy -> Usher: ${load.text}`)
    nothingFailed(t, load)
    t.strictSame(await ofKubelet(), asKubelet, 'what is the kubelet’s stays')
  })
  await t.test('Usher -> kube-proxy', async t => {
    let said = ''
    const load = await underLoad(
      agents,
      async () => {
        usher?.send('SIGTERM')
        await start()
        await usher?.exit
        said = await stage.cleanUp()
      },
      20_000,
      isForAll,
    )
    t.comment(`${way.label}, Usher -> kube-proxy: ${load.text}\n${said}`)
    t.match(said, 'a proxy in mode iptables serves this node')
    nothingFailed(t, load)
    t.strictSame(
      (await plainText(run, program)).toSorted(),
      asKubeProxy.toSorted(),
      'what is kube-proxy’s and the kubelet’s is as it was, and there is no more',
    )
    t.notMatch((await stage.now()).all, /table ip6? usher|USHER-|usher0|169\.254\.77\.88/)
    t.notMatch(await stage.cleanUp(), /removed/, 'a second time there is nothing')
  })
}
