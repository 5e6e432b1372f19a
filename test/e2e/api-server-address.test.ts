// A process of its own: long, and it mostly waits.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type Child, startChild } from '../../bench/process/child.ts'
import { nodeObject, serviceObject } from '../support/api-server/builders.ts'
import type { KubeObject } from '../support/api-server/kube-object.ts'
import { makeNetns, type Netns, netnsProblem } from '../support/netns.ts'
import { until } from '../support/until.ts'
import { runningIn } from '../support/usher-in.ts'
import { usherProgram } from '../support/usher-program.ts'

const why = await netnsProblem('nft', 'iptables')
const apiAddress = '198.51.100.9'
const apiPort = 6443

/** Carries connections to the API server, which is on loopback. */
const carrier = (port: string): string => `
  require('node:net').createServer(client => {
    const server = require('node:net').connect(${port}, '127.0.0.1')
    client.on('error', () => {}).pipe(server.on('error', () => {})).pipe(client)
  }).listen(${apiPort}, '${apiAddress}', () => console.log('ready'))`

const dialling = (port: number): string => `
  require('node:net').connect({ host: '${apiAddress}', port: ${port} })
    .on('connect', () => { console.log('connected'); process.exit() })
    .on('error', error => { console.log(error.code); process.exit() })
  setTimeout(() => { console.log('silence'); process.exit() }, 2000)`

interface Status {
  readonly problems: readonly { object: string; field: string; message: string }[]
}

/** A node, and the API server on another host. */
const twoHosts = async (t: Test) => {
  const [api, node] = await Promise.all([makeNetns('api'), makeNetns('node')])
  await api.run('ip', ['link', 'add', 'eth0', 'type', 'veth', 'peer', 'name', 'eth1'])
  await api.run('ip', ['link', 'set', 'eth1', 'netns', node.name, 'name', 'eth0'])
  for (const [ns, address] of [
    [api, apiAddress],
    [node, '198.51.100.1'],
  ] as const) {
    await ns.run('ip', ['address', 'add', `${address}/24`, 'dev', 'eth0'])
    await ns.run('ip', ['link', 'set', 'eth0', 'up'])
  }
  const main = new URL('../support/api-server/main.ts', import.meta.url)
  const server = startChild(main, api.prefix)
  t.teardown(() => server.stop())
  const access = (await server.ask({ do: 'access', user: 'token' }, 20_000)) as {
    url: string
    kubeconfig: string
  }
  await runningIn(api, ['-e', carrier(new URL(access.url).port)], /ready/)
  return { node, server, kubeconfig: access.kubeconfig, url: access.url }
}

const apply = (server: Child, object: KubeObject) =>
  server.ask({ do: 'apply', object }, 10_000)

/** The kubeconfig by which the node reaches it. */
const fromNode = (t: Test, kubeconfig: string): string => {
  const path = join(t.testdir(), 'kubeconfig')
  const config = JSON.parse(readFileSync(kubeconfig, 'utf8')) as {
    clusters: { cluster: Record<string, string> }[]
  }
  for (const { cluster } of config.clusters) {
    cluster['server'] = `https://${apiAddress}:${apiPort}`
    cluster['tls-server-name'] = 'localhost'
  }
  writeFileSync(path, JSON.stringify(config))
  return path
}

const evaluated = async (ns: Netns, program: string): Promise<string> =>
  (await ns.run(process.execPath, ['-e', program])).trim()

const asked =
  'fetch("http://127.0.0.1:10249/status").then(got => got.text()).then(console.log)'

const status = async (node: Netns): Promise<Status> =>
  JSON.parse(await evaluated(node, asked)) as Status

/** Whose addresses are the API server's: what is left out of them is a problem. */
const isLeftOut = (node: Netns): Promise<void> =>
  until('the problem', async () => {
    const { problems } = await status(node).catch(() => ({ problems: [] }))
    return problems.some(({ message }) => message.includes('reaches the API server'))
  })

t.test(
  'who may write Services takes no node off its API server',
  { skip: why !== '' && why },
  async t => {
    const { node, server, kubeconfig } = await twoHosts(t)
    const config = fromNode(t, kubeconfig)
    const other = '198.51.100.20'
    await apply(server, nodeObject('node-2', other))
    const spoilt = (port: number) =>
      serviceObject(`cut-${port}`, `10.96.1.${port % 250}`, {
        spec: { externalIPs: [apiAddress, other], ports: [{ port, protocol: 'TCP' }] },
      })
    const ways: readonly (readonly string[])[] = [
      ['--proxy-mode=userspace', '--capture=local'],
      ['--proxy-mode=nftables'],
      ['--proxy-mode=iptables'],
    ]
    for (const way of ways)
      await t.test(way.join(' '), async t => {
        const args = [
          usherProgram,
          'run',
          `--kubeconfig=${config}`,
          '--hostname-override=node-1',
          '--control-socket=',
          '--connect-time=off',
          `--state-dir=${t.testdir()}`,
          ...way,
        ]
        const first = await runningIn(node, args, /"serving"/)
        t.teardown(first)
        await apply(server, serviceObject('web', '10.96.0.10'))
        // The API server's own port, and any: one address on lo would take them all.
        await apply(server, spoilt(apiPort))
        await apply(server, spoilt(80))
        await isLeftOut(node)
        t.equal(await evaluated(node, dialling(apiPort)), 'connected')
        const { problems } = await status(node)
        const ofOther = problems.find(({ field }) => field === other)?.message ?? ''
        t.equal(
          ofOther.includes('an address of Node node-2'),
          way.includes('--capture=local'),
        )
        t.match(
          problems.find(({ object }) => object.includes('cut-6443')) ?? problems[0],
          {
            message: /198\.51\.100\.9/,
          },
        )
        // Without an end: what is in the kernel stays.
        await first()
        const second = await runningIn(node, args, /"serving"/)
        t.teardown(second)
        await isLeftOut(node)
        t.equal(await evaluated(node, dialling(apiPort)), 'connected', 'after a restart')
        await second()
        await server.ask(
          { do: 'apply', object: serviceObject('web', '10.96.0.11') },
          10_000,
        )
      })
  },
)
