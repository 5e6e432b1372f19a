import { existsSync } from 'node:fs'
import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { pinsFolder } from '../../src/kernel/bpf/pins.ts'
import { runTool } from '../../src/kernel/run-tool.ts'
import { programFile } from '../../src/util/own-files.ts'
import { nativeCalls } from '../native-calls.ts'
import { cgroupProblem, joining, makeCgroup, removeCgroup } from '../process/cgroup.ts'
import type { BenchService, Endpoint } from '../services.ts'
import { firstProblem, ip, ipset, iptables, ipvsadm, nft } from './program.ts'
import { addressesOf, placedAt, shownPart, startProxy, targetDirectory } from './proxy.ts'
import type { Order, RunningTarget, Target } from './target.ts'
import { pageIn } from '../topology/probe.ts'
import type { Lane, Place } from '../topology/topology.ts'

/** The program of this installation, for sources that of the last build. */
export const ownCommand = (): readonly string[] => [
  process.execPath,
  fileURLToPath(programFile('usher')),
]

/** Why it can't be started; '' when it can. */
export const usherProblem = (): string => {
  const program = ownCommand()[1] ?? ''
  return existsSync(program)
    ? ''
    : `${program} is missing: build it with \`npm run build\``
}

const nativeProblem = (): string => {
  const native = nativeCalls()
  return typeof native === 'string' ? native : ''
}

/** No other process is in the network namespace of a target that has it. */
const metrics = '127.0.0.1:10249'

export interface UsherOptions {
  readonly name: string
  readonly capture: 'listen' | 'nftables' | 'iptables' | 'local'
  /** Which relay carries the bytes, and its threads; what `usher run` chooses without it. */
  readonly relay?: 'portable' | { readonly linuxWorkers: number }
  /** Program and first arguments of another build. */
  readonly command?: readonly string[]
  readonly mainlyFor?: readonly string[]
}

/** Usher as a relay, in userspace. */
export const usherTarget = (options: UsherOptions): Target => {
  const { name, capture, relay, command, mainlyFor } = options
  const relayFlags =
    relay === undefined
      ? []
      : relay === 'portable'
        ? ['--relay=portable']
        : ['--relay=linux', `--relay-workers=${relay.linuxWorkers}`]
  const tools = { listen: [], nftables: [nft], iptables: [iptables], local: [ip] }
  return {
    name,
    title: ['usher run', '--capture', capture, ...relayFlags].join(' '),
    kind: 'usher',
    ...(mainlyFor && { mainlyFor }),
    unsupportedReason: ({ kind }) =>
      firstProblem(
        [
          command === undefined ? usherProblem() : '',
          capture !== 'listen' && kind !== 'namespaces'
            ? `capture ${capture} changes the host, so it needs network namespaces`
            : '',
          command === undefined && typeof relay === 'object' ? nativeProblem() : '',
        ],
        tools[capture],
      ),
    start: async order => {
      const { lane, services } = order
      // `listen` needs addresses that the node has, captures unassigned ones.
      const vips =
        capture === 'listen'
          ? addressesOf(await placedAt(lane, services))
          : clusterIps(order)
      const flags = (directory: string) => [
        '--proxy-mode=userspace',
        `--capture=${capture}`,
        `--state-dir=${join(directory, 'state')}`,
        '--metrics-bind-address=off',
        ...(capture === 'listen' ? [] : serviceCidr(lane)),
        ...relayFlags,
      ]
      return startUsher(order, { name, flags, vips, ...(command && { command }) })
    },
  }
}

const serviceCidr = ({ clusterCidr }: Lane): readonly string[] =>
  clusterCidr === undefined ? [] : [`--service-cidr=${clusterCidr}`]

/** The modes in which the kernel carries the traffic, and Usher only its rules. */
export type KernelMode = 'nftables' | 'iptables' | 'ipvs'

/** Is there as soon as ip_vs is, in every network namespace. */
const ipvsFile = '/proc/net/ip_vs'

/** `usher run --proxy-mode MODE`: clients dial a ClusterIP, the kernel leads them on. */
export const usherModeTarget = (mode: KernelMode): Target => {
  const name = `usher-mode-${mode}`
  const tools = {
    nftables: [nft],
    iptables: [iptables],
    ipvs: [iptables, ipvsadm, ipset],
  }
  return {
    name,
    title: `usher run --proxy-mode ${mode}: the kernel carries, Usher's process does not`,
    kind: 'usher',
    unsupportedReason: ({ kind }) =>
      firstProblem(
        [
          usherProblem(),
          kind === 'namespaces'
            ? ''
            : `mode ${mode} changes the host, so it needs network namespaces`,
          // Modules are the host's, so they are not loaded from here.
          mode === 'ipvs' && !existsSync(ipvsFile)
            ? 'no ip_vs in this kernel; where there is a module, `modprobe ip_vs` loads it'
            : '',
        ],
        tools[mode],
      ),
    start: async order => {
      const flags = () => [`--proxy-mode=${mode}`, `--metrics-bind-address=${metrics}`]
      const running = await startUsher(order, { name, flags, vips: clusterIps(order) })
      const stop = async (): Promise<void> => {
        await running.stop()
        await empty(mode, order.lane)
      }
      const runs = await pageIn(order.lane, `http://${metrics}/proxyMode`)
      if (runs === mode) return { ...running, stop }
      await stop()
      throw new Error(`${name} fell back to ${runs}, which is measured already`)
    },
  }
}

const emptyMs = 120_000

/**
 * Rules outlive Usher, as they are to. Here they would serve in the name of the next one.
 * `usher cleanup` looks at each chain whose it is, which for 10 000 Services takes longer
 * than what is measured; here all are Usher's.
 */
const empty = async (mode: KernelMode, { enter }: Lane): Promise<void> => {
  const run = (call: readonly string[], input = ''): Promise<string> => {
    const [command = '', ...args] = [...enter, ...call]
    return runTool(command, args, { input, timeoutMs: emptyMs })
  }
  if (mode === 'nftables') return void (await run(['nft', 'flush', 'ruleset']))
  const tables = ['mangle', 'nat', 'filter'].map(table => `*${table}\nCOMMIT\n`)
  await run(['iptables-restore'], tables.join(''))
  if (mode === 'ipvs') await run([...ownCommand(), 'cleanup'])
}

export interface ConnectTimeOptions {
  /** What carries clients elsewhere, beside those that are led; nothing without it. */
  readonly beside?: 'local' | 'nftables'
  readonly mainlyFor?: readonly string[]
}

/** `usher run --connect-time on`: clients dial a ClusterIP, and are led to an endpoint as they do. */
export const connectTimeTarget = ({ beside, mainlyFor }: ConnectTimeOptions): Target => {
  const name = `usher-connect-time${beside === undefined ? '' : `+${beside}`}`
  const mode =
    beside === 'nftables'
      ? ['--proxy-mode=nftables']
      : ['--proxy-mode=userspace', `--capture=${beside ?? 'none'}`]
  return {
    name,
    title: `usher run --connect-time on ${mode.join(' ')}: the client's own connect leads to an endpoint`,
    kind: 'usher',
    ...(mainlyFor && { mainlyFor }),
    unsupportedReason: ({ kind }) =>
      firstProblem(
        [
          usherProblem(),
          kind === 'namespaces'
            ? ''
            : 'a client that is led needs a ClusterIP, so it needs network namespaces',
          cgroupProblem(),
          nativeProblem(),
        ],
        beside === undefined ? [] : [beside === 'local' ? ip : nft],
      ),
    start: async order => {
      const led = await openLedClients(name, order.workDir)
      const flags = (directory: string) => [
        ...mode,
        ...led.flags,
        ...(beside === 'nftables' ? [] : [`--state-dir=${join(directory, 'state')}`]),
        ...serviceCidr(order.lane),
        `--metrics-bind-address=${metrics}`,
      ]
      // Usher tries by a connect of its own whether clients of the group are led, so it is in it.
      const running = await startUsher(
        {
          ...order,
          services: likeDirect(order),
          lane: led.at(order.lane),
          client: led.at(order.client),
        },
        { name, flags, vips: clusterIps(order) },
      ).catch(async (error: unknown) => {
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
    },
  }
}

/** Clients come to the backend that `direct` dials: two of them would cost more by themselves. */
const likeDirect = ({ services, lane }: Order): Order['services'] =>
  services.map(one => {
    const isOfPods = one.endpoints.length === lane.podAddresses.length
    return isOfPods ? { ...one, endpoints: one.endpoints.slice(0, 1) } : one
  })

/**
 * A cgroup whose processes are led as they connect, and a bpffs for what leads them. Both are this
 * target's alone: a bpffs is a new one with each mount. Mounts are the sandbox's, and
 * the folders are not in the target's own, which is emptied while they are mounted.
 */
const openLedClients = async (name: string, workDir: string) => {
  const cgroup = await makeCgroup()
  const folder = join(workDir, `${name}-led`)
  const [group, bpffs] = [join(folder, 'cgroup'), join(folder, 'bpf')]
  await mkdir(group, { recursive: true })
  await mkdir(bpffs, { recursive: true })
  await runTool('mount', ['--bind', cgroup, group])
  await runTool('mount', ['-t', 'bpf', 'bpf', bpffs])
  return {
    /** With paths as all processes of the bench see them; those in namespaces have another /sys. */
    flags: [
      '--connect-time=on',
      `--connect-time-cgroup=${group}`,
      `--connect-time-bpffs=${bpffs}`,
    ],
    cgroup,
    /** The place, with whoever is started there in the cgroup. */
    at: <P extends Pick<Place, 'enter'>>(place: P): P => ({
      ...place,
      enter: [...joining(cgroup), ...place.enter],
    }),
    /** After its processes have ended: programs at it go with the group. */
    close: async (): Promise<void> => {
      // Namespaces that were entered meanwhile have copies of the mount.
      await rm(pinsFolder(bpffs), { recursive: true, force: true })
      await runTool('umount', [group, bpffs])
      await removeCgroup(cgroup)
    },
  }
}

/** ClusterIPs: unassigned addresses. */
const clusterIps = ({ lane, services }: Order): ReadonlyMap<string, Endpoint> => {
  const { clusterIp } = lane
  if (clusterIp === undefined) throw new Error('this node has no ClusterIPs')
  return new Map(
    services.map(({ name }, index) => [name, { address: clusterIp(index), port: 80 }]),
  )
}

/** What differs between the ways in which Usher is measured. */
interface UsherTraits {
  readonly name: string
  /** Program and first arguments of another build; this installation's by default. */
  readonly command?: readonly string[]
  /** Flags of `usher run` beside those that all have; the directory is the target's own. */
  readonly flags: (directory: string) => readonly string[]
  /** Where clients dial which service. */
  readonly vips: ReadonlyMap<string, Endpoint>
}

const sharedFlags = [
  '--hostname-override=bench-node',
  '--healthz-bind-address=off',
  '--min-sync-period=0s',
  '--log-level=warn',
  '--log-format=json',
]

/** What the next one finds it by, if there is to be one; how long it may go on serving then. */
export const replaceable =
  ({ isToBeReplaced }: Order) =>
  (directory: string): readonly string[] =>
    isToBeReplaced
      ? [`--control-socket=${join(directory, 'control')}`, '--drain-timeout=1s']
      : ['--drain-timeout=0s']

/** `usher run` with manifests that it follows. */
const startUsher = async (
  order: Order,
  { name, command, flags, vips }: UsherTraits,
): Promise<RunningTarget> => {
  const directory = await targetDirectory(order, name)
  const manifestsIn = join(directory, 'manifests')
  await mkdir(manifestsIn)
  const manifests = new Manifests(manifestsIn, order.services, vips)
  await manifests.writeAll()
  const given = [
    'run',
    `--manifests=${manifestsIn}`,
    ...sharedFlags,
    ...replaceable(order)(directory),
    ...flags(directory),
  ]
  const argv = [...(command ?? ownCommand()), ...given]
  return startProxy(order, {
    name,
    argv,
    ...(order.isToBeReplaced && { successor: () => argv }),
    // The path of this installation means nothing on another machine.
    command: [...(command ?? ['usher']), ...given].join(' '),
    config: shownPart(manifests.text(0)),
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

/** So many Services share a file: one change rewrites one file, and 10 000 are not as many. */
const servicesInFile = 100

/**
 * Services as manifest files, JSON because it is read fastest: a v1 Service each with
 * the VIP that `vips` has for it, and a discovery.k8s.io/v1 EndpointSlice for each
 * port that its endpoints have.
 */
class Manifests {
  readonly #directory: string
  readonly #vips: ReadonlyMap<string, Endpoint>
  readonly #services: BenchService[]

  constructor(
    directory: string,
    services: readonly BenchService[],
    vips: ReadonlyMap<string, Endpoint>,
  ) {
    this.#directory = directory
    this.#services = [...services]
    this.#vips = vips
  }

  async writeAll(): Promise<void> {
    for (let at = 0; at < this.#services.length; at += servicesInFile)
      await this.#write(at)
  }

  /** Rejects for a service that there is not. */
  async setEndpoints(name: string, endpoints: readonly Endpoint[]): Promise<void> {
    const index = this.#services.findIndex(service => service.name === name)
    const service = this.#services[index]
    if (service === undefined) throw new Error(`there is no service ${name}`)
    this.#services[index] = { ...service, endpoints }
    await this.#write(index - (index % servicesInFile))
  }

  /** The file that begins with the service at `from`. */
  text(from: number): string {
    const lines = this.#services
      .slice(from, from + servicesInFile)
      .flatMap(service => objectsOf(service, this.#vips.get(service.name)))
      .map(object => JSON.stringify(object))
    return `{"apiVersion":"v1","kind":"List","items":[\n${lines.join(',\n')}\n]}\n`
  }

  /** Under a name that Usher ignores, then renamed: half of it is never read. */
  async #write(from: number): Promise<void> {
    const name = `services-${from / servicesInFile}.json`
    const draft = join(this.#directory, `.${name}`)
    await writeFile(draft, this.text(from))
    await rename(draft, join(this.#directory, name))
  }
}

const objectsOf = (
  { name, protocol, endpoints }: BenchService,
  vip: Endpoint | undefined,
): readonly object[] => {
  if (vip === undefined) return []
  const ports = [...new Set(endpoints.map(({ port }) => port))]
  return [
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name },
      spec: { clusterIP: vip.address, ports: [{ protocol, port: vip.port }] },
    },
    ...ports.map(port => ({
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: {
        name: `${name}-${port}`,
        labels: { 'kubernetes.io/service-name': name },
      },
      addressType: 'IPv4',
      ports: [{ protocol, port }],
      endpoints: endpoints
        .filter(one => one.port === port)
        .map(({ address }) => ({ addresses: [address] })),
    })),
  ]
}
