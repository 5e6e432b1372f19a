import { existsSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Endpoint } from '../services.ts'
import type { Lane, Topology } from '../topology/topology.ts'
import { nativeCalls } from '../native-calls.ts'
import { nodePorts } from './node-ports.ts'
import { type Program, whyNoProgram } from './program.ts'
import { startProxy } from './start-proxy.ts'
import type { Order, Target } from './target.ts'
import { shownPart, targetDirectory } from './target-directory.ts'
import { UsherManifests } from './usher-manifests.ts'

export type BenchCapture = 'listen' | 'nftables' | 'iptables' | 'local'

export interface UsherOptions {
  readonly name: string
  readonly capture: BenchCapture
  /** A directory of it is made under this. */
  readonly workDir: string
  /** Program and first arguments of another build; this installation's by default. */
  readonly command?: readonly string[]
  /** Which relay carries the bytes, and its threads; what `usher run` chooses without it. */
  readonly relay?: BenchRelay
  readonly mainlyFor?: readonly string[]
}

export type BenchRelay =
  { readonly kind: 'portable' } | { readonly kind: 'linux'; readonly workers: number }

/** `usher run` with manifests that it follows. */
export const usherTarget = (options: UsherOptions): Target => ({
  name: options.name,
  title: ['usher run', '--capture', options.capture, ...relayFlags(options)].join(' '),
  kind: 'usher',
  ...(options.mainlyFor && { mainlyFor: options.mainlyFor }),
  whyNot: topology => whyNot(options, topology),
  start: order => start(options, order),
})

/** The program of this installation, for sources that of the last build. */
const ownCommand = (): readonly string[] => {
  const built = import.meta.url.endsWith('.ts') ? '../../../dist/cli' : '../../cli'
  return [process.execPath, fileURLToPath(new URL(`${built}/main.js`, import.meta.url))]
}

const tools: Readonly<Record<BenchCapture, readonly Program[]>> = {
  listen: [],
  nftables: [{ command: 'nft', versionArgs: ['--version'], packageName: 'nftables' }],
  iptables: [
    { command: 'iptables', versionArgs: ['--version'], packageName: 'iptables' },
  ],
  local: [{ command: 'ip', versionArgs: ['-V'], packageName: 'iproute2' }],
}

const whyNot = async (
  { capture, command, relay }: UsherOptions,
  topology: Pick<Topology, 'kind'>,
): Promise<string> => {
  const program = ownCommand()[1] ?? ''
  if (command === undefined && !existsSync(program))
    return `${program} is missing: build it with \`npm run build\``
  if (capture !== 'listen' && topology.kind !== 'namespaces')
    return `capture ${capture} changes the host, so it needs network namespaces`
  if (command === undefined && relay?.kind === 'linux') {
    const native = nativeCalls()
    if (typeof native === 'string') return native
  }
  const reasons = await Promise.all(tools[capture].map(whyNoProgram))
  return reasons.find(reason => reason !== '') ?? ''
}

const start = async (options: UsherOptions, order: Order) => {
  const directory = await targetDirectory(options.workDir, options.name)
  const manifestsIn = join(directory, 'manifests')
  await mkdir(manifestsIn)
  const vips = await vipsOf(options.capture, order)
  const manifests = new UsherManifests(manifestsIn, order.services, vips)
  await manifests.writeAll()
  const given = flags(options, order.lane, directory, manifestsIn)
  return startProxy(order, {
    name: options.name,
    argv: [...(options.command ?? ownCommand()), ...given],
    // Where it is installed is of no use to somebody who wants to do the same.
    command: [...(options.command ?? ['usher']), ...given].join(' '),
    config: shownPart(manifests.sample()),
    addresses: vips,
    directory,
    setEndpoints: async (service, endpoints, process) => {
      await manifests.setEndpoints(service, endpoints)
      // It watches its files, too, but waits until they have been quiet for 50 ms, which
      // with 20 changes a second they never are.
      process.signal('SIGHUP')
    },
  })
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
  manifestsIn: string,
): readonly string[] => [
  'run',
  `--manifests=${manifestsIn}`,
  `--capture=${options.capture}`,
  `--state-dir=${join(directory, 'state')}`,
  '--hostname-override=bench-node',
  '--metrics-bind-address=off',
  '--healthz-bind-address=off',
  '--min-sync-period=0s',
  '--drain-timeout=0s',
  '--log-level=warn',
  '--log-format=json',
  ...(options.capture !== 'listen' && lane.clusterCidr !== undefined
    ? [`--service-cidr=${lane.clusterCidr}`]
    : []),
  ...relayFlags(options),
]

/** `listen` needs addresses that the node has, captures such that nobody has. */
const vipsOf = async (
  capture: BenchCapture,
  { lane, services }: Order,
): Promise<ReadonlyMap<string, Endpoint>> => {
  if (capture === 'listen') return nodePorts(lane, services)
  const { clusterIp } = lane
  if (clusterIp === undefined) throw new Error('this node has no ClusterIPs')
  return new Map(
    services.map(({ name }, index) => [name, { address: clusterIp(index), port: 80 }]),
  )
}
