import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import {
  addressOf,
  type BackendName,
  type HostName,
} from '../../support/net/addresses.ts'
import type { Conversation } from '../../support/net/agent.ts'
import { inParallel } from '../../support/net/in-parallel.ts'
import { until } from '../../support/until.ts'
import { families, objectsOf } from './objects.ts'
import { serviceNamed } from './services.ts'
import { makeStage, type Stage } from './stage.ts'
import { type VipName, vipOf } from './vips.ts'
import type { Way } from './ways.ts'

const clients: readonly HostName[] = ['node', 'pod-1', 'pod-2', 'outside']
const vips: readonly VipName[] = ['ClusterIP', 'node port, first address']
/** Clients of each kind: with three endpoints some have the one that leaves. */
const each = 4
/** A listener hears twenty in a second. */
const listenMs = 600

interface Client {
  readonly from: HostName
  readonly vip: VipName
  readonly flow: Conversation
  /** Who answers it. */
  home: string
}

type Condition = 'ready' | 'terminating' | 'ended'

const conditionsOf: Readonly<Record<Condition, object>> = {
  ready: { ready: true, serving: true, terminating: false },
  terminating: { ready: false, serving: true, terminating: true },
  ended: { ready: false, serving: false, terminating: true },
}

/** `plain`, with one of its endpoints in another condition, or in none. */
const withBackend = (
  { manifests }: Stage,
  backend: BackendName,
  condition: Condition | 'gone',
): Promise<void> => {
  const plain = serviceNamed('plain')
  if (condition === 'gone') {
    const backends = plain.backends.filter(name => name !== backend)
    return manifests.write(...objectsOf([{ ...plain, backends }]))
  }
  const addresses = new Set(families.map(family => addressOf[backend][family]))
  return manifests.write(
    ...objectsOf([plain]).map(object => {
      const endpoints: unknown = Reflect.get(object, 'endpoints')
      if (!Array.isArray(endpoints)) return object
      const changed = endpoints.map((endpoint: { addresses: string[] }) =>
        endpoint.addresses.some(one => addresses.has(one))
          ? Object.assign(endpoint, { conditions: conditionsOf[condition] })
          : endpoint,
      )
      return Object.assign(object, { endpoints: changed })
    }),
  )
}

/**
 * Rollouts under UDP clients that only listen, as players of a game or callers do: those of
 * healthy endpoints never notice, and those of one that terminates stay while it serves.
 */
export const udpFlowsStay = async (
  t: Test,
  way: Way,
  ...flags: string[]
): Promise<void> => {
  const stage = await makeStage(t, way)
  await withBackend(stage, 'backend-2', 'ready')
  const usher = stage.start(...flags)
  await usher.ready(4)
  const open = async (): Promise<Client[]> => {
    const wanted = clients.flatMap(from =>
      vips.flatMap(vip =>
        families.flatMap(family =>
          Array.from({ length: each }, () => ({ from, vip, family })),
        ),
      ),
    )
    return inParallel(16, wanted, async ({ from, vip, family }) => {
      const to = vipOf[vip](serviceNamed('plain'), family)
      const flow = await stage.agents[from].open({ protocol: 'UDP', ...to })
      const client: Client = { from, vip, flow, home: '' }
      await until('it is answered', async () => (client.home = await flow.ask()) !== '')
      await flow.subscribe()
      return client
    })
  }
  const all = await open()
  const at = (home: string): Client[] => all.filter(client => client.home === home)
  for (const name of ['backend-1', 'backend-2', 'backend-3'])
    t.ok(at(name).length > 0, `${at(name).length} of ${all.length} clients have ${name}`)
  /** Each hears its own endpoint and nobody else. */
  const stayed = async (some: readonly Client[], what: string): Promise<void> => {
    await Promise.all(some.map(({ flow }) => flow.heard()))
    await sleep(listenMs)
    const heard = await Promise.all(some.map(({ flow }) => flow.heard()))
    const moved = some.flatMap(({ from, vip, home }, i) =>
      heard[i]?.join() === home
        ? []
        : [`${from}, ${vip}: ${home} -> ${heard[i]?.join()}`],
    )
    t.strictSame(moved, [], `${what}: none of ${some.length} moved or fell silent`)
  }
  const isPlaced = (backend: string, is: boolean): Promise<void> =>
    until(`new clients get ${is ? '' : 'no '}${backend}`, async () => {
      const to = vipOf.ClusterIP(serviceNamed('plain'), 'IPv4')
      const dials = Array.from({ length: 20 }, () =>
        stage.agents['pod-1'].dial({ protocol: 'UDP', ...to }, 2000),
      )
      const names = (await Promise.all(dials)).map(({ backend: name }) => name)
      return names.every(name => name !== '') && names.includes(backend) === is
    })

  await stayed(all, 'at first')
  await withBackend(stage, 'backend-2', 'terminating')
  await isPlaced('backend-2', false)
  await stayed(all, 'an endpoint terminates and serves')
  await withBackend(stage, 'backend-2', 'ready')
  await isPlaced('backend-2', true)
  await stayed(all, 'it is back')
  await withBackend(stage, 'backend-2', 'terminating')
  await isPlaced('backend-2', false)
  await withBackend(stage, 'backend-2', 'ended')
  const healthy = [...at('backend-1'), ...at('backend-3')]
  const moves = async (): Promise<void> =>
    until('those who lost their endpoint get another', async () => {
      const names = await Promise.all(at('backend-2').map(({ flow }) => flow.ask()))
      return names.every(name => name === 'backend-1' || name === 'backend-3')
    })
  await moves()
  await stayed(healthy, 'it serves no more')
  await withBackend(stage, 'backend-2', 'gone')
  await isPlaced('backend-2', false)
  await stayed(healthy, 'it is gone')
  usher.send('SIGTERM')
  await usher.exit
}
