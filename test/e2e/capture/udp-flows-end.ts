import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import type { IpFamily } from '../../../src/util/ip.ts'
import type { HostName } from '../../support/net/addresses.ts'
import type { Conversation } from '../../support/net/agent.ts'
import type { NodeUsher } from '../../support/net/node-usher.ts'
import { inParallel } from '../../support/net/in-parallel.ts'
import { until } from '../../support/until.ts'
import { families, objectsOf } from './objects.ts'
import { serviceNamed, type TestService } from './services.ts'
import { makeStage, type Stage } from './stage.ts'
import { type VipName, vipOf } from './vips.ts'
import { allNodePorts, iptablesMode, isOfKernel, nftablesMode, type Way } from './ways.ts'

const clients: readonly HostName[] = ['node', 'pod-1', 'outside']
const vips: readonly VipName[] = [
  'ClusterIP',
  'external IP',
  'load-balancer IP',
  'node port, first address',
]

interface Client {
  readonly text: string
  readonly vip: VipName
  readonly family: IpFamily
  readonly flow: Conversation
}

interface ServiceObject {
  readonly kind: string
  readonly metadata: { readonly name: string; annotations?: Record<string, string> }
  spec: Record<string, unknown> & { ports: Record<string, unknown>[] }
  status: unknown
}

type Edit = (service: ServiceObject) => void

const editSpec =
  (change: (spec: ServiceObject['spec']) => Record<string, unknown>): Edit =>
  service =>
    void Object.assign(service.spec, change(service.spec))

/** Its only endpoint answers all of its clients. */
const loner = serviceNamed('loner')
const home = 'backend-1'

/** Flows end within 2 s; half a second more until silence is heard, and as much again for a busy host. */
const endedMs = 5000

const all = (): boolean => true
const none = (): boolean => false

const withoutNodePorts = (ports: ServiceObject['spec']['ports']) =>
  ports.map(port =>
    Object.fromEntries(Object.entries(port).filter(([key]) => key !== 'nodePort')),
  )

const at =
  (...names: readonly VipName[]) =>
  ({ vip }: Client): boolean =>
    names.includes(vip)

/** What of a Service goes, and whose flows end with it. */
const waysToGo: readonly (readonly [
  what: string,
  change: Partial<TestService> | Edit | 'deleted',
  isEnded: (client: Client) => boolean,
])[] = [
  ['no endpoint is left', { backends: [] }, all],
  ['the Service is deleted', 'deleted', all],
  [
    'it is made again with another address',
    editSpec(() => ({
      clusterIP: '10.96.0.99',
      clusterIPs: ['10.96.0.99', 'fd10:96::99'],
    })),
    at('ClusterIP'),
  ],
  [
    'its external IPs are taken off',
    editSpec(() => ({ externalIPs: [] })),
    at('external IP'),
  ],
  [
    'the load balancer takes its IPs back',
    service => void Object.assign(service, { status: {} }),
    at('load-balancer IP'),
  ],
  [
    'node ports are taken off',
    editSpec(({ ports }) => ({ ports: withoutNodePorts(ports) })),
    at('node port, first address'),
  ],
  [
    'nobody is let in by its load balancer any more',
    { allowed: 'nobody' },
    at('load-balancer IP'),
  ],
  [
    'its port of UDP goes',
    editSpec(({ ports }) => ({
      ports: ports.filter(({ protocol }) => protocol !== 'UDP'),
    })),
    all,
  ],
  [
    'it loses IPv6',
    editSpec(() => ({
      clusterIPs: [`10.96.0.${loner.index}`],
      ipFamilies: ['IPv4'],
      ipFamilyPolicy: 'SingleStack',
    })),
    ({ family }) => family === 'IPv6',
  ],
]

const waysToGoUnseen: typeof waysToGo = [
  ['the Service is deleted', 'deleted', all],
  [
    'it keeps its ClusterIP alone',
    service => {
      const { ports } = service.spec
      service.spec.type = 'ClusterIP'
      service.spec.externalIPs = []
      service.spec.ports = withoutNodePorts(ports)
      service.status = {}
    },
    client => !at('ClusterIP')(client),
  ],
]

const relayed: Edit = ({ metadata }) =>
  void (metadata.annotations = { 'usher-proxy.io/relay': 'true' })

const objectsAfter = (change: (typeof waysToGo)[number][1]): object[] => {
  const others = [serviceNamed('plain')]
  if (change === 'deleted') return objectsOf(others)
  if (typeof change !== 'function') return objectsOf([...others, { ...loner, ...change }])
  const objects = objectsOf([...others, loner]) as ServiceObject[]
  for (const one of objects)
    if (one.kind === 'Service' && one.metadata.name === loner.name) change(one)
  return objects
}

const openAll = async ({ agents }: Stage): Promise<readonly Client[]> => {
  const wanted = clients.flatMap(from =>
    vips.flatMap(vip => families.map(family => ({ from, vip, family }))),
  )
  return inParallel(wanted.length, wanted, async ({ from, vip, family }) => ({
    text: `${from} to ${vip}, ${family}`,
    vip,
    family,
    flow: await agents[from].open({ protocol: 'UDP', ...vipOf[vip](loner, family) }),
  }))
}

/** They met no rule, and go by what the kernel remembers of that. */
const synsComeAgain = async (t: Test, { agents, manifests }: Stage): Promise<void> => {
  await manifests.write(...objectsAfter('deleted'))
  await until('it is gone', async () => {
    const to = { protocol: 'TCP', ...vipOf['external IP'](loner, 'IPv4') } as const
    return (await agents.outside.dial(to, 500)).result !== 'answer'
  })
  const wanted = clients.flatMap(from => families.map(family => ({ from, family })))
  const dials = inParallel(wanted.length, wanted, ({ from, family }) =>
    agents[from].dial(
      { protocol: 'TCP', ...vipOf['external IP'](loner, family) },
      20_000,
    ),
  )
  // Once again after a second, and then after three.
  await sleep(1200)
  await manifests.write(...objectsAfter({}))
  for (const [i, { result }] of (await dials).entries())
    t.equal(result, 'answer', `${wanted[i]?.from}, ${wanted[i]?.family}`)
}

/** Clients that never change their port lose what they had when it goes, and nobody else does. */
export const udpFlowsEnd = async (t: Test, way: Way): Promise<void> => {
  const stage = await makeStage(t, way)
  await stage.manifests.write(...objectsAfter({}))
  const flags = allNodePorts(way)
  let usher = stage.start(...flags)
  await usher.ready()
  const open = await openAll(stage)
  const areAnswered = async (
    isEnded: (client: Client) => boolean,
    ms?: number,
  ): Promise<void> => {
    let differing: readonly string[] = []
    await until(
      'flows are as they should be',
      async () => {
        const answers = await Promise.all(open.map(({ flow }) => flow.ask()))
        differing = open.flatMap((client, i) =>
          answers[i] === (isEnded(client) ? '' : home) ? [] : [client.text],
        )
        return differing.length === 0
      },
      ms,
    ).catch((error: Error) => {
      throw new Error(`${error.message}: ${differing.join('; ')}`)
    })
  }
  const serve = (change: (typeof waysToGo)[number][1]): Promise<void> =>
    stage.manifests.write(...objectsAfter(change))
  for (const [what, change, isEnded] of waysToGo) {
    await serve({})
    await areAnswered(none)
    await serve(change)
    await areAnswered(isEnded, endedMs)
    t.pass(what)
  }
  if (way.manner === 'nftables')
    await t.test('Services change sides', async t => {
      const stays = {
        protocol: 'UDP' as const,
        ...vipOf.ClusterIP(serviceNamed('plain'), 'IPv4'),
      }
      const listener = await stage.agents['pod-1'].open(stays)
      const answerer = await listener.ask()
      await listener.subscribe()
      // To the relay, to the kernel, and again; then it goes with the relay's rules.
      for (const change of [relayed, {}, relayed]) {
        await serve(change)
        await areAnswered(none)
      }
      await serve('deleted')
      await areAnswered(all)
      await listener.heard()
      await sleep(600)
      t.strictSame(await listener.heard(), [answerer], 'a flow of the kernel’s stays')
    })
  await t.test('SYNs that came too early come again', t => synsComeAgain(t, stage))
  if (!isOfKernel(way)) return
  const start = (by: Way): NodeUsher => stage.startBy(by, ...allNodePorts(by))
  const other = way.manner === 'nftables' ? iptablesMode('nft') : nftablesMode
  // The second one goes while another mode takes over.
  for (const [i, [what, change, isEnded]] of waysToGoUnseen.entries()) {
    await serve({})
    await areAnswered(none)
    usher.send('SIGKILL')
    await usher.exit
    await serve(change)
    usher = start(i === 0 ? way : other)
    await areAnswered(isEnded)
    t.pass(`${what} while no Usher runs`)
  }
}
