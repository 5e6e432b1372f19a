import { type SpawnMonitor, spawnMonitor } from '../../../src/kernel/nft/monitor.ts'
import { iptablesKind } from '../../../src/kernel/iptables/iptables-proxier.ts'
import {
  plainSettings,
  type KernelSettings,
  type Proxier,
} from '../../../src/kernel/proxier.ts'
import type { RunTool } from '../../../src/kernel/run-tool.ts'
import type { BackendMode } from '../../../src/kernel/xtables/backend.ts'
import type {
  Endpoint,
  ServiceHealthCheck,
  ServicePort,
  Snapshot,
} from '../../../src/model/snapshot.ts'
import type { IpFamily } from '../../../src/util/ip.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import * as objects from '../../support/objects.ts'
import { makeNetnsShell } from '../../support/netns-shell.ts'
import { netnsProblem } from '../../support/netns.ts'
import { clusterIp, servicePort } from '../../support/service-ports.ts'
import { oneBackend } from './one-backend.ts'

const why = await netnsProblem('iptables-nft', 'iptables-legacy', 'ip6tables-nft')
export const skip = why === '' ? false : why

export const backends = ['nft', 'legacy'] as const

export const settings: KernelSettings = {
  ...plainSettings,
  localhostNodePorts: true,
  localDetector: { by: 'source', cidrs: ['10.0.0.0/8'] },
  nodeAddresses: ['203.0.113.5'],
}

const endpoint = (address: string): Endpoint => ({
  ...objects.endpoint(address),
  port: 8080,
})

/** With the ClusterIP 10.96.0.N and these endpoints; without one it is refused. */
export const service = (
  name: string,
  number: number,
  addresses: readonly string[],
  over: Partial<ServicePort> = {},
): ServicePort => {
  const endpoints = addresses.map(endpoint)
  const verdict = endpoints.length === 0 ? ('reject' as const) : ('forward' as const)
  const target = { verdict, endpoints }
  return servicePort(name, {
    vips: [clusterIp(`10.96.0.${number}`)],
    endpoints,
    reachable: endpoints,
    internal: target,
    external: target,
    externalFromNode: target,
    ...over,
  })
}

export const snapshotOf = (
  servicePorts: readonly ServicePort[],
  checks: readonly ServiceHealthCheck[] = [],
): Snapshot => ({
  family: 'IPv4',
  servicePorts: new Map(servicePorts.map(each => [each.key, each])),
  healthChecks: new Map(
    checks.map(each => [`${each.namespace}/${each.serviceName}`, each]),
  ),
})

export interface World {
  /** In the namespace that its rules are in. */
  readonly run: RunTool
  readonly clock: FakeClock
  readonly proxier: Proxier
  /** Another process. */
  another(): Proxier
  /** What was told to the observer. */
  readonly told: string[]
  /** Inputs of iptables-restore that were fed with `--counters`, last one last. */
  readonly written: string[]
  save(table: string): Promise<string>
  restore(text: string): Promise<string>
}

export interface WorldOptions {
  readonly backend?: BackendMode
  readonly family?: IpFamily
  /** The host has both back ends; by default only this one. */
  readonly hasBoth?: boolean
  /** It is told of changes, as Usher is. */
  readonly isTold?: boolean
  /** Around the runner of tools. */
  readonly around?: (run: RunTool) => RunTool
}

export const makeWorld = async ({
  backend = 'nft',
  family = 'IPv4',
  hasBoth = false,
  isTold = false,
  around = each => each,
}: WorldOptions = {}): Promise<World> => {
  const run = await makeNetnsShell()
  const shell = await run('sh', ['-c', 'cut -d " " -f 4 /proc/$PPID/stat'])
  const spawnThere: SpawnMonitor = (command, args) =>
    spawnMonitor('nsenter', [`--net=/proc/${shell.trim()}/ns/net`, command, ...args])
  const clock = new FakeClock()
  const told: string[] = []
  const written: string[] = []
  const record: RunTool = (command, args, options) => {
    if (args.includes('--counters') && !isProbe(options?.input))
      written.push(options?.input ?? '')
    return run(command, args, options)
  }
  const kind = iptablesKind({
    run: around(hasBoth ? record : oneBackend(record, backend)),
    clock,
    backend,
    ...(isTold && { spawnMonitor: spawnThere }),
    observer: {
      restoreFailed: (of, work) => told.push(`${of} ${work}`),
      failed: (what, reason) => told.push(`${what}: ${reason}`),
    },
  })
  const tool = family === 'IPv4' ? 'iptables' : 'ip6tables'
  return {
    run,
    clock,
    proxier: kind.proxier(family),
    another: () => kind.proxier(family),
    told,
    written,
    save: table => run(`${tool}-${backend}-save`, ['-t', table]),
    restore: input => run(`${tool}-${backend}-restore`, ['--noflush'], { input }),
  }
}

const isProbe = (input = ''): boolean => input.includes('KUBE-USHER-PROBE-')

/** Rules, sorted: without dates, and without the order of Services. */
export const rulesOf = (saved: string): readonly string[] =>
  saved
    .split('\n')
    .filter(line => !line.startsWith('#'))
    .map(line => line.replace(/ \[\d+:\d+\]$/, ''))
    .toSorted()
