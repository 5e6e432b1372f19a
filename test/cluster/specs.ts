import { mkdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { adminConfig, type Cluster } from './cluster.ts'
import { program } from './programs.ts'
import { startDaemon } from './run-command.ts'
import { once } from 'node:events'

/** Kubernetes' own tests of what a service proxy does (sig-network). */
const services = String.raw`\[sig-network\] (Services|Networking|Conntrack|KubeProxy|HostPort|Traffic Distribution|EndpointSlice|NoSNAT|Service CIDRs|.*IPv6DualStack)`

/** They touch the API alone, want what the cluster has not (SCTP, the internet), or disturb all others. */
const notOfProxies = [
  String.raw`\[Disruptive\]`,
  String.raw`\[Serial\]`,
  String.raw`\[Feature:(SCTPConnectivity|NetworkPolicy|Networking-IPv6|Networking-DNS|Networking-IPv4)\]`,
  'Internet connection',
  'IPerf2',
  'API operations|from listing all|status lifecycle|delete a collection|unchanging, static',
  'NodePort collisions|out-of-range|release NodePorts',
  'create and delete EndpointSlices|create Endpoints and EndpointSlices',
].join('|')

/** Rolling updates behind load balancers take a quarter of an hour. */
const focusMinutes = 40
/** Of what gives the load balancers, in a cloud. */
const ofClouds = 'load balancer cleanup finalizer'

/** Two minutes each, most of it waiting: they run beside all others. */
const long = 'Services should have session affinity timeout'

export type Verdict = 'passed' | 'failed' | 'skipped'

export interface SpecResult {
  readonly verdict: Verdict
  readonly seconds: number
  /** Why it failed, or was skipped by itself. */
  readonly message: string
}

type Row = readonly [spec: string, result: SpecResult]
/** By the spec's name. */
export type Results = ReadonlyMap<string, SpecResult>

/** Runs them; `folder` has the report and the log afterwards. */
export const runSpecs = async (
  cluster: Cluster,
  folder: string,
  focus: string | undefined,
): Promise<Results> => {
  await rm(folder, { recursive: true, force: true })
  await mkdir(folder, { recursive: true })
  const suites =
    focus === undefined
      ? [
          ginkgo(cluster, folder, 'long', 2, long, 'nothing is skipped'),
          ginkgo(cluster, folder, 'services', 16, services, `${notOfProxies}|${long}`),
        ]
      : [ginkgo(cluster, folder, 'focus', 8, focus, ofClouds, focusMinutes)]
  return new Map((await Promise.all(suites)).flat())
}

const ginkgo = async (
  cluster: Cluster,
  folder: string,
  name: string,
  processes: number,
  focus: string,
  skip: string,
  minutes = 15,
): Promise<readonly Row[]> => {
  const report = `${name}.json`
  const child = startDaemon(
    [
      program('ginkgo'),

      `--procs=${processes}`,
      '--no-color',
      `--timeout=${minutes}m`,
      '--poll-progress-after=0',
      `--json-report=${report}`,
      `--output-dir=${folder}`,
      '--focus',
      focus,
      '--skip',
      skip,
      program('e2e.test'),
      '--',
      '--provider=skeleton',
      `--kubeconfig=${adminConfig(cluster)}`,
      '--disable-log-dump',
      '--minStartupPods=0',
      '--allowed-not-ready-nodes=0',
      '--node-schedulable-timeout=1m',
      '--num-nodes=3',
    ],
    join(folder, `${name}.log`),
  )
  await once(child, 'exit') // Not 0 where a spec has failed: the report says which.
  return resultsOf(await readFile(join(folder, report), 'utf8'))
}

interface Spec {
  readonly LeafNodeType: string
  readonly ContainerHierarchyTexts?: readonly string[] | null
  readonly LeafNodeText: string
  readonly State: string
  /** Nanoseconds. */
  readonly RunTime: number
  readonly Failure?: { readonly Message?: string }
}

/** Specs that were not asked for are left out. */
export const resultsOf = (report: string): readonly Row[] => {
  const suites = JSON.parse(report) as readonly { SpecReports?: readonly Spec[] }[]
  const specs = suites.flatMap(({ SpecReports }) => SpecReports ?? [])
  return specs
    .filter(({ LeafNodeType }) => LeafNodeType === 'It')
    .filter(({ State, Failure }) => State !== 'skipped' || Failure?.Message)
    .map(spec => [nameOf(spec), resultOf(spec)])
}

const nameOf = ({ ContainerHierarchyTexts, LeafNodeText }: Spec): string =>
  [...(ContainerHierarchyTexts ?? []), LeafNodeText]
    .join(' ')
    .replace('[sig-network] ', '')
    // Tags: [Conformance], [LinuxOnly], [Slow] and others.
    .replace(/( \[[^\]]+\])+$/, '')

/** `State` may be panicked, interrupted, aborted, timedout. */
const resultOf = ({ State, RunTime, Failure }: Spec): SpecResult => ({
  verdict: State === 'passed' || State === 'skipped' ? State : 'failed',
  seconds: RunTime / 1e9,
  message: Failure?.Message ?? '',
})
