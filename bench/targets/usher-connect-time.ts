import { join } from 'node:path'
import { nativeCalls } from '../native-calls.ts'
import { cgroupProblem } from '../process/cgroup.ts'
import type { Topology } from '../topology/topology.ts'
import { type LedClients, openLedClients } from './led-clients.ts'
import { pageIn } from './probe.ts'
import { type Program, programProblem } from './program.ts'
import type { Order, RunningTarget, Target } from './target.ts'
import { empty } from './usher-mode.ts'
import {
  clusterIps,
  startUsher,
  type UsherProgram,
  usherProblem,
} from './usher-program.ts'

export interface ConnectTimeOptions extends Omit<UsherProgram, 'name' | 'command'> {
  /** What carries clients elsewhere, beside those that are led; nothing without it. */
  readonly beside?: Beside
  readonly mainlyFor?: readonly string[]
}

type Beside = 'local' | 'nftables'

/** `usher run --connect-time on`: clients dial a ClusterIP, and are led to an endpoint as they do. */
export const connectTimeTarget = (options: ConnectTimeOptions): Target => {
  const { beside, mainlyFor } = options
  const name = `usher-connect-time${beside === undefined ? '' : `+${beside}`}`
  return {
    name,
    title: `usher run --connect-time on ${modeFlags(beside).join(' ')}: the client's own connect leads to an endpoint`,
    kind: 'usher',
    ...(mainlyFor && { mainlyFor }),
    unsupportedReason: topology => connectTimeProblem(beside, topology),
    start: order => start({ ...options, name }, order),
  }
}

const modeFlags = (beside: Beside | undefined): readonly string[] =>
  beside === 'nftables'
    ? ['--proxy-mode=nftables']
    : ['--proxy-mode=userspace', `--capture=${beside ?? 'none'}`]

const tools: Readonly<Record<Beside, Program>> = {
  local: { command: 'ip', versionArgs: ['-V'], packageName: 'iproute2' },
  nftables: { command: 'nft', versionArgs: ['--version'], packageName: 'nftables' },
}

const connectTimeProblem = async (
  beside: Beside | undefined,
  { kind }: Pick<Topology, 'kind'>,
): Promise<string> => {
  const notBuilt = usherProblem({})
  if (notBuilt !== '') return notBuilt
  if (kind !== 'namespaces')
    return 'a client that is led needs a ClusterIP, so it needs network namespaces'
  const noGroup = cgroupProblem()
  if (noGroup !== '') return noGroup
  const native = nativeCalls()
  if (typeof native === 'string') return native
  return beside === undefined ? '' : programProblem(tools[beside])
}

/** No other process is in this network namespace. */
const metrics = '127.0.0.1:10249'

const start = async (
  options: ConnectTimeOptions & Pick<UsherProgram, 'name'>,
  order: Order,
): Promise<RunningTarget> => {
  const { name, workDir, beside } = options
  const led = await openLedClients(name, workDir)
  const running = await startIn(led, options, order).catch(async (error: unknown) => {
    await led.close()
    throw error
  })
  const stop = async (): Promise<void> => {
    await running.stop()
    if (beside === 'nftables') await empty('nftables', order.lane)
    await led.close()
  }
  const page = await pageIn(order.lane, `http://${metrics}/metrics`)
  if (/^usher_connect_time_leads 1$/m.test(page))
    return { ...running, stop, cgroup: led.cgroup }
  await stop()
  throw new Error(`${name} leads nobody as they connect: ${running.complaint()}`)
}

/** Clients come to the backend that `direct` dials: two of them would cost more by themselves. */
const likeDirect = ({ services, lane }: Order): Order['services'] =>
  services.map(one => {
    const isOfPods = one.endpoints.length === lane.podAddresses.length
    return isOfPods ? { ...one, endpoints: one.endpoints.slice(0, 1) } : one
  })

/** Usher tries by a connect of its own whether clients of the group are led, so it is in it. */
const startIn = (
  { flags, at }: LedClients,
  { name, workDir, beside }: ConnectTimeOptions & Pick<UsherProgram, 'name'>,
  order: Order,
): Promise<RunningTarget> => {
  const lane = at(order.lane)
  return startUsher(
    { name, workDir },
    { ...order, services: likeDirect(order), lane, client: at(order.client) },
    {
      flags: directory => [
        ...modeFlags(beside),
        ...flags,
        ...(beside === 'nftables' ? [] : [`--state-dir=${join(directory, 'state')}`]),
        ...(lane.clusterCidr === undefined ? [] : [`--service-cidr=${lane.clusterCidr}`]),
        `--metrics-bind-address=${metrics}`,
      ],
      vips: clusterIps(order),
    },
  )
}
