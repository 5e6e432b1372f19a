import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { backendsOf, type Pod, startPod } from '../../../bench/backends/pod.ts'
import type { Backends } from '../../../bench/scenarios/scenario.ts'
import {
  type BenchService,
  type Endpoint,
  standardServices,
} from '../../../bench/services.ts'
import type { Order, RunningTarget, Target } from '../../../bench/targets/target.ts'
import type { Lane, Place, Topology } from '../../../bench/topology/topology.ts'

/** All on one address of this host. */
export const here: Place = { enter: [], listenAddress: '127.0.0.1' }

export const lane: Lane = {
  ...here,
  nodeAddress: '127.0.0.1',
  podAddresses: ['127.0.0.1', '127.0.0.1'],
}

export const hostOnly: Topology = {
  kind: 'loopback',
  description: 'one host',
  client: here,
  pods: [here, here],
  lane: () => Promise.resolve(lane),
  close: () => Promise.resolve(),
}

export const workDirectory = async (t: Test): Promise<string> => {
  const directory = await mkdtemp(join(tmpdir(), 'usher-targets-'))
  t.teardown(() => rm(directory, { recursive: true, force: true }))
  return directory
}

export interface TestPods {
  readonly pods: readonly Pod[]
  readonly backends: Backends
  readonly services: readonly BenchService[]
  readonly workDir: string
}

/** Two pods of the bench's own servers, and the standard services in front of them. */
export const startPods = async (t: Test): Promise<TestPods> => {
  const workDir = await workDirectory(t)
  const pods = await Promise.all(
    [0, 1].map(() => startPod(here, { http: 'own', workDir })),
  )
  t.teardown(() => Promise.all(pods.map(pod => pod.stop())))
  const backends = backendsOf(pods, lane)
  const services = (['http', 'source', 'sink', 'udp'] as const).map(name => ({
    name,
    protocol: standardServices[name],
    endpoints: backends.endpoints(name),
  }))
  return { pods, backends, services, workDir }
}

/** Stopped at the end of the test, whatever becomes of it. */
export const startTarget = async (
  t: Test,
  target: Target,
  order: Pick<Order, 'services'> & Partial<Order>,
): Promise<RunningTarget> => {
  const signal = new AbortController().signal
  const workDir = await workDirectory(t)
  const running = await target.start({ lane, client: here, signal, workDir, ...order })
  t.teardown(() => running.stop())
  return running
}

/** Where clients dial a service that it has to have. */
export const dialled = (running: RunningTarget, service: string): Endpoint => {
  const address = running.addressOf(service)
  if (address === undefined) throw new Error(`there is no address for ${service}`)
  return address
}

/** Whether a process with this id runs. */
export const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}
