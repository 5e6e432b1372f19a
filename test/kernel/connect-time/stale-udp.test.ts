import t from 'tap'
import { runTool } from '../../../src/kernel/run-tool.ts'
import type { IpFamily } from '../../../src/util/ip.ts'
import { clusterIp } from '../../support/service-ports.ts'
import { type Client, skip } from './group.ts'
import { makeStaleStage } from './stale-world.ts'
import { endpointsAt, serviceTo, type To } from './world.ts'

const connected = { connected: true } as const
const udp = { protocol: 'UDP' } as const
const dnsAt = (vip: string, to: To, family: IpFamily = 'IPv4') =>
  serviceTo(`dns-${vip}`, [{ ...clusterIp(vip), port: 53 }], to, { ...udp, family })

/** Node is told that its socket was ended; what it sends on it has nowhere to go. */
const ended = { error: 'EDESTADDRREQ', told: 'ECONNABORTED' }

const all = <T>(count: number, value: T): T[] =>
  Array.from({ length: count }, () => value)

const twoAt = async (client: Client, ...addresses: [string, string]) => {
  const [a, b] = await endpointsAt(client, ...addresses)
  if (a === undefined || b === undefined) throw new Error('none')
  return [a, b] as const
}

for (const [vip, a4, b4, dialled] of [
  ['10.96.0.1', '127.0.0.11', '127.0.0.12', '10.96.0.1'],
  ['10.96.0.1', '127.0.0.11', '127.0.0.12', '::ffff:10.96.0.1'],
  ['fd10:96::1', '::1', '::1', 'fd10:96::1'],
] as const)
  t.test(`a connected socket ends with its endpoint: ${dialled}`, { skip }, async t => {
    const { group, serve, end } = await makeStaleStage(t)
    const client = await group.client()
    const family = vip.includes(':') ? 'IPv6' : 'IPv4'
    const [a, b] = await twoAt(client, a4, b4)
    const other = family === 'IPv4' ? '10.96.0.2' : 'fd10:96::2'
    const stays = dnsAt(other, [a], family)
    const web = serviceTo('web', [clusterIp(vip)], [a], { family })
    await serve(dnsAt(vip, [a], family), stays, web)
    const ask = (name: string, kind: object = connected) =>
      client.udp(dialled, 53, { name, ...kind })
    const others = [
      () => ask('unconnected', {}),
      () => client.udp(...a, { name: 'by itself', ...connected }),
      () => client.udp(other, 53, { name: 'of another Service', ...connected }),
      () => client.keepTcp(vip, 80, 'web'),
    ]
    t.match(await ask('led'), { said: new RegExp(`^${a4} from `) })
    for (const each of others) t.match(await each(), { said: String })
    await serve(dnsAt(vip, [b], family), stays, serviceTo('web', [clusterIp(vip)], [b]))
    t.match(await ask('led'), { said: new RegExp(`^${a4} from `) }, 'it stays by itself')
    t.same(await end(), [])
    t.same(await ask('led'), ended)
    t.match(await ask('anew'), {
      said: new RegExp(`^${b4} from `),
      peer: `${dialled} 53`,
    })
    for (const each of others) t.match(await each(), { said: String }, String(each))
  })

t.test(
  'a Service that nothing serves, or that is gone, has no sockets',
  { skip },
  async t => {
    const { group, serve, end } = await makeStaleStage(t)
    const client = await group.client()
    const [a] = await twoAt(client, '127.0.0.11', '127.0.0.12')
    const stays = dnsAt('10.96.0.2', [a])
    let round = 0
    const ask = (vip: string) =>
      client.udp(vip, 53, { name: `${vip} ${round}`, ...connected })
    for (const services of [[dnsAt('10.96.0.1', [])], [dnsAt('10.96.0.3', [a])], []]) {
      round += 1
      await serve(dnsAt('10.96.0.1', [a]), stays)
      for (const vip of ['10.96.0.1', '10.96.0.2'])
        t.match(await ask(vip), { said: String })
      await serve(...services, stays)
      t.same(await end(), [])
      t.same(await ask('10.96.0.1'), ended)
      t.match(await ask('10.96.0.2'), { said: String })
    }
  },
)

t.test('in all network namespaces', { skip }, async t => {
  const { group, serve, end } = await makeStaleStage(t)
  const clients = [
    await group.client(),
    await group.client(),
    await group.client('the host'),
  ]
  const [first, ...others] = clients as [Client, ...Client[]]
  const [a, b] = await twoAt(first, '127.0.0.11', '127.0.0.12')
  for (const each of others)
    for (const [address, port] of [a, b]) await each.serve(address, port)
  await serve(dnsAt('10.96.0.1', [a]))
  const ask = (client: Client, name: string) =>
    client.udp('10.96.0.1', 53, { name, ...connected })
  const askAll = (name: string) => Promise.all(clients.map(each => ask(each, name)))
  t.match(await askAll('led'), all(3, { said: /^127.0.0.11 / }))
  await serve(dnsAt('10.96.0.1', [b]))
  t.same(await end(), [])
  t.same(await askAll('led'), all(3, ended))
  t.match(await askAll('anew'), all(3, { said: /^127.0.0.12 / }))
})

t.test('more sockets than one filter has', { skip }, async t => {
  const { group, serve, end } = await makeStaleStage(t)
  const client = await group.client()
  const [a, b] = await twoAt(client, '127.0.0.11', '127.0.0.12')
  await serve(dnsAt('10.96.0.1', [a]))
  const names = Array.from({ length: 250 }, (_, n) => `led ${n}`)
  const askAll = () =>
    Promise.all(names.map(name => client.udp('10.96.0.1', 53, { name, ...connected })))
  t.match(await askAll(), all(250, { said: /^127.0.0.11 / }))
  await serve(dnsAt('10.96.0.1', [b]))
  t.same(await end(), [])
  t.same(await askAll(), all(250, ended))
})

t.test('a socket with the same ends as one that is to stay', { skip }, async t => {
  const { group, serve, end } = await makeStaleStage(t)
  const client = await group.client()
  const [a, b] = await twoAt(client, '127.0.0.11', '127.0.0.12')
  await serve(dnsAt('10.96.0.1', [a]))
  const localPort = 7777
  await client.udp('10.96.0.1', 53, { name: 'led', localPort, ...connected })
  await client.udp(...a, { name: 'by itself', localPort, ...connected })
  await serve(dnsAt('10.96.0.1', [b]))
  t.match(await end(), [/ both ends in common /])
  t.match(await client.udp(...a, { name: 'by itself', ...connected }), { said: String })
})

t.test('no tool runs where no socket was led', { skip }, async t => {
  const { group, serve, end } = await makeStaleStage(t)
  const client = await group.client()
  const [a, b] = await twoAt(client, '127.0.0.11', '127.0.0.12')
  const none = () => t.fail('a tool runs') as never
  await serve(dnsAt('10.96.0.1', [a]))
  t.match(await client.udp(...a, { name: 'by itself', ...connected }), { said: String })
  await serve(dnsAt('10.96.0.1', [b]))
  t.same(await end(none), [])
  t.match(await client.udp('10.96.0.1', 53, { name: 'at b', ...connected }), {
    said: /12 /,
  })
  await serve(dnsAt('10.96.0.1', [a, b]))
  t.same(await end(none), [], 'another endpoint has come')
})

t.test('what keeps sockets from their end is said', { skip }, async t => {
  const { group, serve, end } = await makeStaleStage(t)
  const client = await group.client()
  const [a, b] = await twoAt(client, '127.0.0.11', '127.0.0.12')
  await serve(dnsAt('10.96.0.1', [a]))
  const host = await group.client('the host')
  await host.serve(...a)
  const ask = (who = client) => who.udp('10.96.0.1', 53, { name: 'led', ...connected })
  for (const who of [client, host]) t.match(await ask(who), { said: String })
  await serve(dnsAt('10.96.0.1', [b]))
  /** `ss` by other words, in the own namespace and in others. */
  const endBy = (...ss: string[]) =>
    end((command, args, options) => {
      const [first = '', ...more] = [command, ...args].flatMap(each =>
        each === 'ss' ? ss : [each],
      )
      return runTool(first, more, options)
    })
  const without = (capability: string) => [
    'setpriv',
    `--bounding-set=-${capability}`,
    `--inh-caps=-${capability}`,
    '--',
  ]
  // A host may have a process that not even root may look at.
  const isOfTools = (each: string) => !each.includes('can not be seen')
  const missing = (await endBy('usher-no-such-tool')).filter(isOfTools)
  t.equal(missing.length, 2)
  t.ok(missing.every(each => / not found; install it /.test(each)))
  t.match(await endBy('false'), [/ false/])
  t.match(await endBy(...without('net_admin'), 'ss'), [
    / not permitted \(CAP_NET_ADMIN\) \(2 times\)$/,
  ])
  const withoutDestroy = await end(async (command, args, options) =>
    args.includes('-K') ? '' : runTool(command, args, options),
  )
  t.match(withoutDestroy, [/ \(the kernel needs CONFIG_INET_DIAG_DESTROY\)/])
  const withoutUdpDiag = ['env', 'PROC_NET_UDP=/proc/net/udp', 'ss']
  t.match(await endBy(...withoutUdpDiag), [
    / which socket is which \(CONFIG_INET_UDP_DIAG\)/,
  ])
  const stuck = await end((command, args, options) =>
    command === 'ss'
      ? runTool(command, args, options)
      : runTool('setpriv', [...without('sys_admin').slice(1), command, ...args], options),
  )
  t.match(stuck, [/ can not be entered \(CAP_SYS_ADMIN\)/])
  t.match(await ask(), { said: /^127.0.0.11 / }, 'nothing was done')
  t.same(await ask(host), ended, 'but in the own namespace')
  t.same(await end(), [])
  t.same(await ask(), ended)
})
