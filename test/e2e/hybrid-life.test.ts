// A process of its own: long, and it mostly waits.
import t, { type Test } from 'tap'
import { dataPlanes } from '../support/data-plane.ts'
import { netnsProblem } from '../support/netns.ts'
import { until } from '../support/until.ts'
import { healthIsRestricted, nodePortsAreRestricted } from './capture/node-ports.ts'
import { staying } from './capture/mode-changes.ts'
import { nothingFailed } from './capture/nothing-failed.ts'
import { families, objectsOf } from './capture/objects.ts'
import { serviceNamed, someServices } from './capture/services.ts'
import { makeStage, type Stage } from './capture/stage.ts'
import { underLoad } from './capture/under-load.ts'
import { type VipName, vipOf } from './capture/vips.ts'
import { iptablesMode, nftablesCapture, nftablesMode } from './capture/ways.ts'

const why = await netnsProblem('iptables', 'nft', 'conntrack')
const options = { skip: why !== '' && why }
t.setTimeout(900_000)

interface Annotated {
  readonly kind: string
  readonly metadata: { readonly name: string; annotations?: Record<string, string> }
}

/** One Service that the relay carries, and the others, which the kernel does. */
const relayed = serviceNamed('sticky')

const objects = (): object[] => {
  const all = objectsOf(someServices) as Annotated[]
  for (const { kind, metadata } of all)
    if (kind === 'Service' && metadata.name === relayed.name)
      metadata.annotations = { 'usher-proxy.io/relay': 'true' }
  return all
}

/** Until new clients of the Service are answered, by the relay or by the kernel. */
const isCarried = async ({ agents }: Stage, byRelay: boolean): Promise<void> => {
  for (const family of families) {
    const to = { protocol: 'TCP', ...vipOf.ClusterIP(relayed, family) } as const
    await until(
      `${family} is carried by the ${byRelay ? 'relay' : 'kernel'}`,
      async () => {
        const { result, own, seen } = await agents['pod-1'].dial(to, 5000)
        return result === 'answer' && (seen !== own) === byRelay
      },
    )
  }
}

const isForAll = (vip: VipName): boolean => vip !== 'node port, loopback'

/** Clients of a Service that the kernel serves notice nothing of it. */
const unnoticed = async (
  t: Test,
  stage: Stage,
  what: string,
  work: () => Promise<void>,
): Promise<void> => {
  const load = await underLoad(stage.agents, work, { isDialled: isForAll })
  t.comment(`${what}: ${load.text}`)
  nothingFailed(t, load)
}

const iptables = iptablesMode('nft')
const all = '--nodeport-addresses=all'

t.test(
  'the life of a hybrid, for clients of what the kernel serves',
  options,
  async t => {
    const stage = await makeStage(t, nftablesMode)
    await stage.manifests.write(...objects())
    let usher = stage.start(all)
    const restart = async (
      signal: NodeJS.Signals,
      next = nftablesMode,
    ): Promise<void> => {
      usher.send(signal)
      await usher.exit
      usher = stage.startBy(next, all, ...staying(next))
      await usher.ready()
    }
    await usher.ready()
    await isCarried(stage, true)
    await t.test('its data plane is killed', async t => {
      const [plane = 0] = dataPlanes(usher.pid)
      await unnoticed(t, stage, 'kill of the data plane', async () => {
        process.kill(plane, 'SIGKILL')
        await until('there is another', () =>
          dataPlanes(usher.pid).some(pid => pid !== plane),
        )
        await isCarried(stage, true)
      })
    })
    for (const signal of ['SIGTERM', 'SIGKILL'] as const)
      await t.test(`${signal} and a new start`, async t => {
        await unnoticed(t, stage, signal, async () => {
          await restart(signal)
          await isCarried(stage, true)
        })
      })
    for (const next of [iptables, nftablesMode, nftablesCapture, nftablesMode])
      await t.test(`${next.label} takes over`, async t => {
        await unnoticed(t, stage, next.label, async () => {
          await restart('SIGTERM', next)
          await isCarried(stage, next !== iptables)
        })
      })
    await t.test('usher cleanup does nothing while it runs', async t => {
      const before = await stage.now()
      await t.rejects(stage.cleanUp(), /an Usher is running here .*end it first/)
      t.strictSame(await stage.now(), before)
      await isCarried(stage, true)
    })
    await t.test('usher cleanup takes all of one that was killed', async t => {
      usher.send('SIGKILL')
      await usher.exit
      t.match((await stage.now()).all, /table ip usher /)
      t.match(await stage.cleanUp(), /table ip usher-services/)
      t.strictSame(await stage.now(), stage.before)
    })
  },
)

t.test('at its end the kernel serves all, while the relay ends', options, async t => {
  const stage = await makeStage(t, nftablesMode)
  await stage.manifests.write(...objects())
  const usher = stage.start('--drain-timeout=20s')
  await usher.ready()
  await isCarried(stage, true)
  const to = { protocol: 'TCP', ...vipOf.ClusterIP(relayed, 'IPv4') } as const
  const kept = await stage.agents['pod-1'].open(to)
  const answeredBy = await kept.ask()
  t.not(answeredBy, '')
  let hasEnded = false
  void usher.exit.then(() => (hasEnded = true))
  usher.send('SIGTERM')
  await isCarried(stage, false)
  t.equal(await kept.ask(), answeredBy, 'who is connected stays so')
  for (const protocol of ['TCP', 'UDP'] as const) {
    const { result } = await stage.agents['pod-2'].dial({ ...to, protocol }, 2000)
    t.equal(result, 'answer', `a new client, ${protocol}`)
  }
  t.notOk(hasEnded, 'it is not at its end yet')
  await kept.close()
  t.match(await usher.exit, { code: 0 })
})

t.test('without a flag node ports are on the primary addresses', options, async t => {
  const stage = await makeStage(t, nftablesMode)
  const asked = [serviceNamed('plain'), serviceNamed('external-local')]
  await stage.manifests.write(...objectsOf(asked))
  const usher = stage.start()
  await usher.ready()
  const primary = { flag: 'primary', answers: ['node port, first address'] } as const
  await nodePortsAreRestricted(t, stage, primary, 'nftables')
  await healthIsRestricted(t, stage, primary)
  usher.send('SIGTERM')
  t.match(await usher.exit, { code: 0 })
})
