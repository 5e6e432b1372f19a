import t, { type Test } from 'tap'
import { wouldGet } from '../../src/cli/explain.ts'
import type { AnswerOf } from '../../src/observe/control-protocol.ts'
import { notListening } from '../../src/relay/queries.ts'
import { order } from '../support/control-socket.ts'
import { put, service, slice } from '../support/objects.ts'
import { controlSocket } from './control-fixture.ts'

const setUp = async (
  t: Test,
  spec: object = {},
  capture: 'kernel' | 'none' = 'kernel',
) => {
  const setting = await controlSocket(
    t,
    [put(service('web', spec)), put(slice(['10.1.0.1', '10.1.0.2']))],
    { explain: async () => ({ ...notListening, closed: '' }) },
  )
  const [servicePort] = setting.reconciler.snapshots()[0]?.servicePorts.values() ?? []
  const vip = servicePort?.vips[0]
  if (!servicePort || !vip) throw new Error('there is no VIP')
  const binds = capture === 'none' ? [{ address: '0.0.0.0', port: 1 }] : []
  const vips = [{ vip, capture, binds, reason: '' }]
  const placements = [{ servicePort, listenerId: 'x', vips }] as const
  setting.mode.placements = [...placements]
  const ask = async (): Promise<AnswerOf<'explain'>> => {
    const address = `${vip.address}:${vip.port}`
    const { body } = await order(setting.path, '/explain', {
      client: '10.9.9.9',
      address,
    })
    return body as AnswerOf<'explain'>
  }
  return { ...setting, ask, placements }
}

const chances = ({ endpoints }: AnswerOf<'explain'>) =>
  endpoints.map(({ chance }) => chance)

t.test('a chance is told where the kernel draws evenly', async t => {
  const { mode, options, ask } = await setUp(t)
  mode.name = 'nftables'
  t.strictSame(chances(await ask()), [0.5, 0.5])
  mode.name = 'ipvs'
  for (const [scheduler, chance] of [
    ['', 0.5],
    ['rr', 0.5],
    ['sh', null],
    ['lc', null],
  ] as const) {
    options.kernel = { ipvs: { scheduler } } as NonNullable<typeof options.kernel>
    t.strictSame(chances(await ask()), [chance, chance], scheduler)
  }

  const sticky = await setUp(t, { affinityMs: 10_800_000 })
  sticky.mode.name = 'nftables'
  const answer = await sticky.ask()
  t.not(answer.affinityMs, 0)
  t.strictSame(chances(answer), [null, null])
  t.match(wouldGet(answer), [/one of 2, .*where it was before/])
})

t.test('a node port on loopback is served where a rule leads on from there', async t => {
  const { mode, options, path, placements } = await setUp(t)
  const [placed] = placements
  const wild = { kind: 'NodePort', address: '0.0.0.0', port: 30_080 } as const
  const vips = [{ vip: wild, capture: 'kernel', binds: [], reason: '' }] as const
  mode.placements = [{ ...placed, vips }]
  const at = async (address: string) =>
    (await order(path, '/explain', { client: '127.0.0.1', address })).status
  const kernelOf = (localhostNodePorts: boolean) =>
    ({
      localhostNodePorts,
      nftables: { localhostNodePorts },
      ipvs: { scheduler: '' },
    }) as NonNullable<typeof options.kernel>
  for (const [name, localhostNodePorts, status] of [
    ['iptables', true, 200],
    ['iptables', false, 404],
    ['nftables', false, 404],
    // There the relay has 127.0.0.1, and no other.
    ['nftables', true, 404],
    ['ipvs', true, 404],
  ] as const) {
    mode.name = name
    options.kernel = kernelOf(localhostNodePorts)
    t.equal(await at('127.0.0.5:30080'), status, `${name} ${localhostNodePorts}`)
  }
})

t.test('where no worker answers, nothing is said of its endpoints', async t => {
  const { ask } = await setUp(t, {}, 'none')
  t.match(await ask(), {
    verdict: { action: 'refuse', why: 'no worker of the relay answers' },
    endpoints: [
      { serves: false, reason: 'not known' },
      { serves: false, reason: 'not known' },
    ],
  })
})

t.test(
  'who asks for a unix socket by the wrong protocol is told of the right one',
  async t => {
    const { mode, path } = await setUp(t)
    const [placement] = mode.placements
    if (placement === undefined) throw new Error('there is no placement')
    const vip = {
      kind: 'Route',
      address: 'unix:/run/web.sock?mode=600',
      port: 0,
    } as const
    mode.placements = [
      { ...placement, vips: [{ vip, capture: 'listen', binds: [], reason: '' }] },
    ]
    const request = { client: 'unix:', address: 'unix:/run/web.sock', protocol: 'udp' }
    t.match(await order(path, '/explain', request), {
      status: 404,
      body: {
        error: {
          message:
            'nothing is served at unix:/run/web.sock (UDP); unix:/run/web.sock has unix:/run/web.sock?mode=600 (TCP) of default/web:http',
        },
      },
    })
  },
)
