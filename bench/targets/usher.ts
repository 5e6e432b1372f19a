import { join } from 'node:path'
import type { Endpoint } from '../services.ts'
import type { Lane, Topology } from '../topology/topology.ts'
import { nativeCalls } from '../native-calls.ts'
import { nodePorts } from './node-ports.ts'
import { type Program, programProblem } from './program.ts'
import type { Order, Target } from './target.ts'
import {
  clusterIps,
  startUsher,
  type UsherProgram,
  usherProblem,
} from './usher-program.ts'

export type BenchCapture = 'listen' | 'nftables' | 'iptables' | 'local'

export interface UsherOptions extends UsherProgram {
  readonly capture: BenchCapture
  /** Which relay carries the bytes, and its threads; what `usher run` chooses without it. */
  readonly relay?: BenchRelay
  readonly mainlyFor?: readonly string[]
}

export type BenchRelay =
  { readonly kind: 'portable' } | { readonly kind: 'linux'; readonly workers: number }

/** Usher as a relay, in userspace. */
export const usherTarget = (options: UsherOptions): Target => ({
  name: options.name,
  title: ['usher run', '--capture', options.capture, ...relayFlags(options)].join(' '),
  kind: 'usher',
  ...(options.mainlyFor && { mainlyFor: options.mainlyFor }),
  unsupportedReason: topology => usherProblemOf(options, topology),
  start: async order =>
    startUsher(options, order, {
      flags: directory => flags(options, order.lane, directory),
      vips: await vipsOf(options.capture, order),
    }),
})

const tools: Readonly<Record<BenchCapture, readonly Program[]>> = {
  listen: [],
  nftables: [{ command: 'nft', versionArgs: ['--version'], packageName: 'nftables' }],
  iptables: [
    { command: 'iptables', versionArgs: ['--version'], packageName: 'iptables' },
  ],
  local: [{ command: 'ip', versionArgs: ['-V'], packageName: 'iproute2' }],
}

const usherProblemOf = async (
  { capture, command, relay }: UsherOptions,
  topology: Pick<Topology, 'kind'>,
): Promise<string> => {
  const notBuilt = usherProblem({ ...(command && { command }) })
  if (notBuilt !== '') return notBuilt
  if (capture !== 'listen' && topology.kind !== 'namespaces')
    return `capture ${capture} changes the host, so it needs network namespaces`
  if (command === undefined && relay?.kind === 'linux') {
    const native = nativeCalls()
    if (typeof native === 'string') return native
  }
  const reasons = await Promise.all(tools[capture].map(programProblem))
  return reasons.find(reason => reason !== '') ?? ''
}

const relayFlags = ({ relay }: UsherOptions): readonly string[] => {
  if (relay === undefined) return []
  const threads = relay.kind === 'linux' ? [`--relay-workers=${relay.workers}`] : []
  return [`--relay=${relay.kind}`, ...threads]
}

const flags = (
  options: UsherOptions,
  lane: Lane,
  directory: string,
): readonly string[] => [
  '--proxy-mode=userspace',
  `--capture=${options.capture}`,
  `--state-dir=${join(directory, 'state')}`,
  '--metrics-bind-address=off',
  ...(options.capture !== 'listen' && lane.clusterCidr !== undefined
    ? [`--service-cidr=${lane.clusterCidr}`]
    : []),
  ...relayFlags(options),
]

/** `listen` needs addresses that the node has, captures unassigned ones. */
const vipsOf = async (
  capture: BenchCapture,
  order: Order,
): Promise<ReadonlyMap<string, Endpoint>> =>
  capture === 'listen' ? nodePorts(order.lane, order.services) : clusterIps(order)
