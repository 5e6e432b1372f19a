import t from 'tap'
import { proxyAddressOf } from '../../../src/capture/proxy-address.ts'
import type { RunTool } from '../../../src/kernel/run-tool.ts'
import { forgetProxyFlows } from '../../../src/kernel/forget-proxy-flows.ts'
import { makeNetns, whyNoNetns } from '../../support/netns.ts'

const why = await whyNoNetns('conntrack')

interface Flow {
  readonly protocol: 'tcp' | 'udp'
  readonly client: string
  readonly vip: string
  /** Where DNAT leads it. */
  readonly to: string
}

const { IPv4, IPv6 } = proxyAddressOf
const [mine, others]: readonly (readonly Flow[])[] = [
  (['tcp', 'udp'] as const).flatMap(protocol => [
    { protocol, client: '10.0.0.1', vip: '10.96.0.10', to: IPv4 },
    { protocol, client: 'fd00::1', vip: 'fd96::10', to: IPv6 },
  ]),
  (['tcp', 'udp'] as const).flatMap(protocol => [
    { protocol, client: '10.0.0.2', vip: '10.96.0.10', to: '10.1.0.1' },
    { protocol, client: 'fd00::2', vip: 'fd96::10', to: 'fd01::1' },
    // Somebody who means the address itself.
    { protocol, client: '10.0.0.3', vip: IPv4, to: '10.1.0.1' },
  ]),
]

/** As the rules of a userspace Usher would make it, for a SYN that nobody has answered. */
const insert = (run: RunTool, { protocol, client, vip, to }: Flow): Promise<string> => {
  const state = protocol === 'tcp' ? ' --state SYN_SENT' : ''
  const there = `-s ${client} -d ${vip} --sport 1000 --dport 80`
  const back = `-r ${to} -q ${client} --reply-port-src 4000 --reply-port-dst 1000`
  return run('conntrack', `-I -p ${protocol} -t 120${state} ${there} ${back}`.split(' '))
}

const clientsOf = async (run: RunTool): Promise<readonly string[]> => {
  const texts = [
    await run('conntrack', ['-L', '-f', 'ipv4']),
    await run('conntrack', ['-L', '-f', 'ipv6']),
  ]
  return texts.join('').match(/^(tcp|udp)|(?<=^[^=]*src=)\S+/gm) ?? []
}

t.test(
  'flows to a userspace Usher that is gone are forgotten, and no others',
  { skip: why !== '' && why },
  async t => {
    const { run } = await makeNetns('flows')
    for (const flow of [...(mine ?? []), ...(others ?? [])]) await insert(run, flow)
    t.equal((await clientsOf(run)).length, 20)
    await forgetProxyFlows(run)
    const left = (others ?? []).flatMap(({ protocol, client }) => [protocol, client])
    t.strictSame((await clientsOf(run)).toSorted(), left.toSorted())
    await t.resolves(forgetProxyFlows(run), 'also when there are none')
  },
)
