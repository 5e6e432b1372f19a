import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import type { Change } from '../../../src/model/service.ts'
import type { Problem } from '../../../src/model/snapshot.ts'
import { systemClock } from '../../../src/util/clock.ts'
import { connectToCluster } from '../../../src/source/kubernetes/cluster-access.ts'
import type { ApiClient } from '../../../src/source/kubernetes/api-client.ts'
import {
  KubernetesSource,
  type KubernetesSourceOptions,
} from '../../../src/source/kubernetes/kubernetes-source.ts'
import type { KubernetesObserver } from '../../../src/source/kubernetes/observer.ts'
import { startApiServer } from '../../support/api-server/for-test.ts'
import type { ApiServer, ApiServerOptions } from '../../support/api-server/server.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import { until } from '../../support/until.ts'

/** Real time passes; what waits for time passes at once when `pump` is called. */
export class PumpedClock extends FakeClock {
  /** Lets time pass in steps until `check` holds; says how many milliseconds it took. */
  async pump(what: string, check: () => boolean, stepMs = 100): Promise<number> {
    const start = this.now()
    const end = performance.now() + 20_000
    while (!check()) {
      if (performance.now() > end) throw new Error(`pumped in vain: ${what}`)
      this.advance(stepMs)
      await sleep(1)
    }
    return this.now() - start
  }
}

/** What a source has told, kept as the registry would keep it. */
export class World {
  readonly objects = new Map<string, unknown>()
  readonly batches: (readonly Change[])[] = []
  readonly log: string[] = []
  /** By collection whose newest state can't be read, when it was read last. */
  readonly lost = new Map<string, number | undefined>()
  problems: readonly Problem[] = []
  synced = 0

  readonly sink = {
    apply: (changes: readonly Change[]) => {
      this.batches.push(changes)
      for (const change of changes) {
        const key = nameOf(change)
        if (change.object === undefined) this.objects.delete(key)
        else this.objects.set(key, change.object)
      }
    },
    synced: () => void (this.synced += 1),
    problems: (problems: readonly Problem[]) => void (this.problems = problems),
  }

  readonly observer: KubernetesObserver = {
    connected: resource => {
      this.lost.delete(resource)
      this.log.push(`connected ${resource}`)
    },
    lost: (resource, why, lastDataAt) => {
      this.lost.set(resource, lastDataAt)
      this.log.push(`lost ${resource}: ${why}`)
    },
    relisted: (resource, why) => void this.log.push(`relisted ${resource}: ${why}`),
    idleLimit: ms => void this.log.push(`idle limit ${ms}`),
    fellBack: (resource, how) => void this.log.push(`fell back ${resource}: ${how}`),
  }

  /** `Service default/web` and so on, in order. */
  get names(): string[] {
    return [...this.objects.keys()].toSorted()
  }

  /** Changes told so far. */
  get told(): number {
    return this.batches.flat().length
  }

  logged(pattern: RegExp): boolean {
    return this.log.some(line => pattern.test(line))
  }

  /** How often a collection was read anew. */
  relists(resource: string): number {
    return this.log.filter(line => line.startsWith(`relisted ${resource}: `)).length
  }
}

export const nameOf = (change: Change): string =>
  'namespace' in change
    ? `${change.kind} ${change.namespace}/${change.name}`
    : `${change.kind} ${change.name}`

export interface FixtureOptions extends Partial<KubernetesSourceOptions> {
  /** Whether answers are waited for in pumped time, too; else pumping can't be too fast. */
  readonly pumpedAnswers?: boolean
}

export interface Fixture {
  readonly api: ApiServer
  readonly world: World
  readonly clock: PumpedClock
  readonly client: ApiClient
  readonly source: KubernetesSource
  /** Starts and waits until the source has synced. */
  readonly sync: () => Promise<void>
  /** Done when the test ends, too. */
  readonly close: () => Promise<void>
}

/** An API server, and a source that is connected to it and not started yet. */
export const fixture = async (
  t: Test,
  server: ApiServerOptions = {},
  { pumpedAnswers = false, ...options }: FixtureOptions = {},
): Promise<Fixture> => {
  const api = await startApiServer(t, server)
  const world = new World()
  const clock = new PumpedClock()
  const access = { kubeconfig: api.kubeconfig(), master: '', qps: -1, version: '0' }
  const client = await connectToCluster(access, {
    clock: pumpedAnswers ? clock : systemClock,
  })
  const source = new KubernetesSource({
    client,
    nodeName: '',
    clock,
    random: () => 0.5,
    observer: world.observer,
    ...options,
  })
  const close = async () => {
    await source.close()
    // A connection that is reset while it is being shut down is never closed: libuv answers
    // EINVAL, and Node forgets the handle.
    await until('connections to end', () => api.connections === 0)
  }
  t.teardown(close)
  const sync = async () => {
    const started = source.start(world.sink)
    await clock.pump('the source to sync', () => world.synced === 1, 1)
    await started
  }
  return { api, world, clock, client, source, sync, close }
}
