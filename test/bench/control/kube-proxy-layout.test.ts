import t from 'tap'
import { Cluster } from '../../../bench/control/cluster.ts'
import { KubeProxyLayout } from '../../../bench/control/kube-proxy-layout.ts'
import { type RunTool, ToolError } from '../../../src/kernel/run-tool.ts'

/** Answers lists as nft does, from the text of the last transactions. */
const fakeNft = () => {
  const inputs: string[] = []
  const chains = new Set<string>()
  const elements = new Map<string, unknown>()
  const run: RunTool = async (_, args, { input = '' } = {}) => {
    if (args[0] === '-f') {
      inputs.push(input)
      for (const [, verb, name = ''] of input.matchAll(
        /^(add|delete) chain \S+ \S+ (\S+)/gm,
      ))
        if (verb === 'add') chains.add(name)
        else chains.delete(name)
      return ''
    }
    if (inputs.length === 0)
      throw new ToolError('nft', 'failed', 'Error: No such file or directory')
    if (args.includes('table')) {
      const listed = [...chains].map(name => ({ chain: { name } }))
      return JSON.stringify({ nftables: listed })
    }
    const elem = elements.get(args.at(-1) ?? '') ?? []
    return JSON.stringify({ nftables: [{ metainfo: {} }, { map: { elem } }] })
  }
  const take = () => inputs.splice(1).join('')
  return { run, inputs, take, elements }
}

t.test(
  'each Service has a chain with a map of its own, and elements one by one',
  async t => {
    const { run, inputs } = fakeNft()
    const proxier = new KubeProxyLayout(run)
    t.same(await proxier.sync(new Cluster(2, 3).snapshot()), { work: 'full' })
    const text = inputs.join('')
    t.equal(text.match(/ numgen random mod 3 map \{/g)?.length, 2)
    t.equal(text.match(/^add element ip kube-proxy service-ips /gm)?.length, 2)
    t.equal(text.match(/^add element ip kube-proxy cluster-ips /gm)?.length, 2)
    t.match(text, 'table ip kube-proxy {')
  },
)

t.test(
  'a change writes the one chain, and no more than the elements that differ',
  async t => {
    const { run, take } = fakeNft()
    const proxier = new KubeProxyLayout(run)
    const cluster = new Cluster(2)
    await proxier.sync(cluster.snapshot())
    take()
    cluster.moveEndpoint(1)
    t.same(await proxier.sync(cluster.snapshot()), { work: 'partial' })
    const text = take()
    t.match(
      text,
      /^add chain .*\nflush chain .*\nadd rule .*\nadd rule .*10\.129\.1\.1 .*\n$/,
    )
    t.same(await proxier.sync(cluster.snapshot()), { work: 'nothing' })
  },
)

t.test('the chain of a Service that goes is emptied first', async t => {
  const { run, take } = fakeNft()
  const proxier = new KubeProxyLayout(run)
  const cluster = new Cluster(2)
  await proxier.sync(cluster.snapshot())
  take()
  cluster.remove(1)
  await proxier.sync(cluster.snapshot())
  const text = take()
  t.match(text, /^flush chain ip kube-proxy service-/m)
  t.notMatch(text, 'delete chain')
  t.equal(text.match(/^delete element/gm)?.length, 2)
})

t.test('all anew leaves the elements that are there already', async t => {
  const { run, inputs, take, elements } = fakeNft()
  const proxier = new KubeProxyLayout(run)
  const snapshot = new Cluster(2).snapshot()
  await proxier.sync(snapshot)
  const [, target] = / : goto (service-\S+) /.exec(inputs.join('')) ?? []
  elements.set('service-ips', [
    [{ concat: ['10.96.1.0', 'tcp', 80] }, { goto: { target } }],
    [{ concat: ['10.96.9.9', 'tcp', 80] }, { goto: { target } }],
  ])
  elements.set('cluster-ips', ['10.96.1.0'])
  take()
  proxier.forget()
  t.same(await proxier.sync(snapshot), { work: 'full' })
  const text = take()
  t.match(text, 'delete element ip kube-proxy service-ips { 10.96.9.9 . tcp . 80 }')
  t.notMatch(text, 'element ip kube-proxy service-ips { 10.96.1.0 ')
  t.match(text, 'add element ip kube-proxy service-ips { 10.96.1.1 . tcp . 80 : goto ')
  t.equal(text.match(/ element ip kube-proxy cluster-ips /g)?.length, 1)
})
