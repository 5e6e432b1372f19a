// A process of its own: long, and it mostly waits.
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { netnsProblem } from '../support/netns.ts'
import { until } from '../support/until.ts'
import { runUsherBy, spawnUsher } from '../support/usher.ts'
import { matrix, tryCells } from './capture/cells.ts'
import { nothingFailed } from './capture/nothing-failed.ts'
import { families, objectsOf } from './capture/objects.ts'
import type { Manner } from './capture/oracle-terms.ts'
import { faultLines } from './capture/report.ts'
import {
  serviceNamed,
  services,
  someServices,
  type TestService,
} from './capture/services.ts'
import { makeStage, type Stage } from './capture/stage.ts'
import { underLoad } from './capture/under-load.ts'
import { type VipName, vipOf } from './capture/vips.ts'
import { allNodePorts, nftablesMode } from './capture/ways.ts'

const why = await netnsProblem('iptables', 'nft', 'conntrack')
const options = { skip: why !== '' && why }
const way = nftablesMode
t.setTimeout(500_000)

interface Annotated {
  readonly kind: string
  readonly metadata: { readonly name: string; annotations?: Record<string, string> }
}

/** The objects of Services, of which some ask for the relay. */
const withRelay = (
  of: readonly TestService[],
  isRelayed: (service: TestService) => boolean,
): object[] => {
  const objects = objectsOf(of) as Annotated[]
  for (const { kind, metadata } of objects)
    if (kind === 'Service' && isRelayed(serviceNamed(metadata.name)))
      metadata.annotations = { 'usher-proxy.io/relay': 'true' }
  return objects
}

const cellsAre = async (
  t: Test,
  { agents }: Stage,
  isOf: (service: TestService) => boolean,
  manner: Manner,
): Promise<void> => {
  const cells = matrix.filter(({ service }) => isOf(service))
  const faults = faultLines(way.label, await tryCells(cells, agents, manner))
  t.comment(faults.join('\n'))
  t.equal(faults.length, 0, `${cells.length} cells, ${manner}`)
}

const isOdd = ({ index }: TestService): boolean => index % 2 === 1
const isEven = (service: TestService): boolean => !isOdd(service)
const isPlain = ({ name }: TestService): boolean => name === 'plain'
const isAny = (): boolean => true
const isNone = (): boolean => false

/** `usher get connections` and `usher tap` on the node: `plain` is the relay's, the other the kernel's. */
const isAskedOfConnections = async (t: Test, { net, agents }: Stage): Promise<void> => {
  const [ours, kernels] = [serviceNamed('plain'), serviceNamed('internal-local')]
  const ask = (...args: string[]) => runUsherBy(net.node.prefix, ...args)
  const addressOf = (service: TestService) =>
    ({ protocol: 'TCP', ...vipOf.ClusterIP(service, 'IPv4') }) as const
  const tap = spawnUsher(
    ['tap', 'default/plain', 'default/internal-local'],
    net.node.prefix,
  )
  t.teardown(() => tap.kill('SIGKILL'))
  const said = { out: '', err: '' }
  tap.stdout.setEncoding('utf8').on('data', text => void (said.out += String(text)))
  tap.stderr.setEncoding('utf8').on('data', text => void (said.err += String(text)))
  await until('it looks', () => said.out.startsWith('TIME '))
  const open = await Promise.all(
    [ours, kernels].map(one => agents['pod-1'].open(addressOf(one))),
  )
  for (const one of open) t.not(await one.ask(), '')
  const { code, out, err } = await ask('get', 'connections')
  t.equal(code, 0)
  t.match(
    err,
    /^usher get: in nftables mode the kernel forwards connections of other Serv/,
  )
  const client = String.raw`10\.\S+:\d+`
  const row = new RegExp(`default/plain:\\S+ +${client} +${client} +open `)
  t.match(out, row)
  t.notMatch(out, /internal-local/)
  for (const one of open) await one.close()
  const end = new RegExp(
    `default/plain:\\S+ +${client} +${client} .* reset by the client `,
  )
  await until('its end is told of', () => end.test(said.out))
  tap.kill('SIGINT')
  t.strictSame(await once(tap, 'exit'), [0, null])
  t.notMatch(said.out, /internal-local/)
  t.match(
    said.err,
    /default\/internal-local:\S+: the kernel forwards its connections, and Usher does not see them end/,
  )
  for (const command of [['tap'], ['get', 'connections']])
    t.match(await ask(...command, 'default/internal-local'), {
      code: 1,
      out: /^$/,
      err: /in nftables mode the kernel forwards connections, and Usher does not see them/,
    })
}

t.test('Services that ask for it are carried by the relay', options, async t => {
  const stage = await makeStage(t, way)
  await stage.manifests.write(...withRelay(services, isOdd))
  const usher = stage.start(...allNodePorts(way))
  await usher.ready()
  t.equal(await usher.mode(), 'nftables')
  await t.test('each by its own', async t => {
    await cellsAre(t, stage, isOdd, 'rules')
    await cellsAre(t, stage, isEven, 'nftables')
  })
  await t.test('the relay tells of its connections, and of no others', async t => {
    await isAskedOfConnections(t, stage)
  })
  await t.test('rules of others are as they were', async t => {
    t.equal((await stage.now()).theirs, stage.before.theirs)
  })
  await t.test('after the end the kernel serves them all', async t => {
    usher.send('SIGTERM')
    t.match(await usher.exit, { code: 0 })
    await cellsAre(t, stage, isAny, 'nftables')
    t.notMatch((await stage.now()).all, /^table ip6? usher /m)
  })
  await t.test('usher cleanup leaves the node as it was', async t => {
    await stage.cleanUp()
    t.strictSame(await stage.now(), stage.before)
  })
})

t.test('a Service changes sides, and nobody notices', options, async t => {
  const stage = await makeStage(t, way)
  const { agents, manifests } = stage
  await manifests.write(...withRelay(someServices, isNone))
  const usher = stage.start('--min-sync-period=0s')
  await usher.ready()
  const plain = serviceNamed('plain')
  const to = { protocol: 'TCP', ...vipOf.ClusterIP(plain, 'IPv4') } as const
  const isSeenAs = async (isClient: boolean): Promise<boolean> => {
    const { own, seen } = await agents['pod-1'].dial(to, 5000)
    return (seen === own) === isClient
  }
  const isForAll = (vip: VipName): boolean => !vip.startsWith('node port')
  const changeSides = async (t: Test, isRelayed: boolean): Promise<void> => {
    const load = await underLoad(
      agents,
      async () => {
        await manifests.write(...withRelay(someServices, isRelayed ? isPlain : isNone))
        await until('it has changed sides', () => isSeenAs(!isRelayed))
      },
      { isDialled: isForAll },
    )
    t.comment(`${isRelayed ? 'to the relay' : 'to the kernel'}: ${load.text}`)
    nothingFailed(t, load)
  }
  for (const isRelayed of [true, false, true])
    await t.test(isRelayed ? 'to the relay' : 'to the kernel', t =>
      changeSides(t, isRelayed),
    )
  await t.test('to and fro', async t => {
    const load = await underLoad(
      agents,
      async () => {
        for (let i = 0; i < 20; i++) {
          await manifests.write(...withRelay(someServices, i % 2 === 0 ? isNone : isAny))
          await sleep(i % 3 === 0 ? 100 : 600)
        }
      },
      { isDialled: isForAll },
    )
    t.comment(load.text)
    nothingFailed(t, load)
  })
  usher.send('SIGTERM')
  t.match(await usher.exit, { code: 0 })
})

t.test(
  'node ports on loopback are for the relay, where they are asked for',
  options,
  async t => {
    const stage = await makeStage(t, way)
    const usher = stage.start('--nftables-localhost-nodeports')
    await usher.ready()
    const plain = serviceNamed('plain')
    for (const family of families)
      for (const protocol of ['TCP', 'UDP'] as const) {
        const at = { protocol, ...vipOf['node port, loopback'](plain, family) }
        const { result } = await stage.agents.node.dial(at, 5000)
        t.equal(result, 'answer', `${family} ${protocol}`)
      }
    // As kube-proxy 1.37: with externalTrafficPolicy Local this node's endpoints, where it has one.
    const ends = async (name: string) => {
      const dialled = serviceNamed(name)
      const at = {
        protocol: 'TCP',
        ...vipOf['node port, loopback'](dialled, 'IPv4'),
      } as const
      const found = new Set<string>()
      for (let i = 0; i < 4; i++) {
        const { result, backend } = await stage.agents.node.dial(at, 5000)
        found.add(backend || result)
      }
      return [...found]
    }
    t.strictSame(await ends('external-local'), ['backend-2'])
    t.strictSame(await ends('external-local-none'), ['timeout'], 'dropped')
    const others = matrix.filter(
      ({ service, vip }) => isPlain(service) && vip === 'ClusterIP',
    )
    t.strictSame(
      faultLines(way.label, await tryCells(others, stage.agents, 'nftables')),
      [],
    )
    usher.send('SIGTERM')
    t.match(await usher.exit, { code: 0 })
  },
)
