import t from 'tap'
import { type RunTool, ToolError, type ToolFailure } from '../../src/kernel/run-tool.ts'
import { ipFamilies } from '../../src/util/ip.ts'
import { makeNetns, netnsProblem } from '../support/netns.ts'
import { proxyAddressOf } from '../../src/kernel/proxy-address.ts'
import { forgetProxyFlows, forgetWaiting } from '../../src/kernel/conntrack.ts'

const why = await netnsProblem('conntrack')

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

/** As the rules of a userspace Usher would make it; of TCP, for a SYN that nobody answered. */
const insert = (
  run: RunTool,
  { protocol, client, vip, to }: Flow,
  tcpState = 'SYN_SENT',
): Promise<string> => {
  const state = protocol === 'tcp' ? ` --state ${tcpState}` : ''
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

const options = { skip: why !== '' && why }

const forgetBoth = async (
  forget: typeof forgetWaiting,
  run: RunTool,
): Promise<readonly string[]> => {
  for (const family of ipFamilies) await forget(run, family)
  return (await clientsOf(run)).toSorted()
}

const wordsOf = (flows: readonly Flow[] | undefined): readonly string[] =>
  (flows ?? []).flatMap(({ protocol, client }) => [protocol, client]).toSorted()

t.test('those who met nobody are led anew, and nobody else', options, async t => {
  const { run } = await makeNetns('flows')
  for (const state of ['SYN_SENT', 'SYN_RECV', 'TIME_WAIT', 'CLOSE']) {
    for (const flow of [...(mine ?? []), ...(others ?? [])])
      await insert(run, flow, state)
    t.equal((await clientsOf(run)).length, 20)
    t.strictSame(await forgetBoth(forgetWaiting, run), wordsOf(others), state)
    t.strictSame(await forgetBoth(forgetWaiting, run), wordsOf(others), 'also with none')
    await run('conntrack', ['-F'])
  }
})

t.test('entries that go while the tool is at it are no failure', options, async t => {
  const { run } = await makeNetns('flows')
  const lines = Array.from({ length: 3000 }, (_, i) => {
    const there = `-s 10.0.0.1 -d 10.96.0.10 --sport ${2000 + i} --dport 80`
    const back = `-r ${IPv4} -q 10.0.0.1 --reply-port-src 4000 --reply-port-dst ${2000 + i}`
    return `-I -p tcp -t 120 --state SYN_SENT ${there} ${back}\n`
  })
  await run('sh', ['-c', 'cat | conntrack --load-file -'], { input: lines.join('') })
  t.equal((await clientsOf(run)).length, 6000)
  const failures = await Promise.all([1, 2, 3].map(() => forgetWaiting(run, 'IPv4')))
  t.strictSame(failures, [undefined, undefined, undefined])
  t.strictSame(await clientsOf(run), [])
})

t.test('nothing to forget is no failure, a tool that fails is', async t => {
  const failing = (failure: ToolFailure, stderr: string) => async () =>
    Promise.reject(new ToolError('conntrack: no', failure, stderr))
  const none = 'conntrack v1.4.7 (conntrack-tools): 0 flow entries have been deleted.\n'
  t.equal(await forgetWaiting(failing('failed', none), 'IPv4'), undefined)
  t.match(await forgetWaiting(failing('missing', ''), 'IPv4'), { failure: 'missing' })
})

t.test('connections stay until nobody can serve them', options, async t => {
  const { run } = await makeNetns('flows')
  const tcp = (mine ?? []).filter(({ protocol }) => protocol === 'tcp')
  for (const state of ['ESTABLISHED', 'FIN_WAIT', 'CLOSE_WAIT', 'LAST_ACK']) {
    for (const flow of [...tcp, ...(others ?? [])]) await insert(run, flow, state)
    const all = wordsOf([...tcp, ...(others ?? [])])
    t.strictSame(await forgetBoth(forgetWaiting, run), all, state)
    t.strictSame(await forgetBoth(forgetProxyFlows, run), wordsOf(others))
    await run('conntrack', ['-F'])
  }
})
