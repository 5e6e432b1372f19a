import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { cp, lstat, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { type Cluster, nodeNames, startDns } from './cluster.ts'
import { makeCertificates, startControlPlane } from './control-plane.ts'
import { deploy, type Deployed, deployTable } from './deploy.ts'
import { imageArchives, registryOfTests } from './images.ts'
import {
  type Measures,
  measure,
  measuresTable,
  prepareMeasures,
  rollingBars,
} from './measures.ts'
import { startLoadBalancer } from './load-balancer.ts'
import { joinPods, makeNetwork, makeNode, type Node, startNode } from './nodes.ts'
import { buildPrograms, cache, here, missingPrograms, top, versions } from './programs.ts'
import { rollingPicture } from './rolling-picture.ts'
import { output, step } from './run-command.ts'
import { changeProxy, removeProxy, type Way, ways } from './service-proxies.ts'
import { type Results, runSpecs } from './specs.ts'
import { loadUsherImage, makeUsherImage } from './usher-image.ts'
import { type Expected, surprises, tableOf } from './verdicts.ts'

const help = `npm run test:cluster -- [--mode NAMES] [--focus REGEX] [--if-built] [--measure] [--deploy] [--stay]

Kubernetes' own tests of Services, with kube-proxy and with Usher, on a real cluster of three nodes
that is made in namespaces of this machine, without a way out, and taken down at the end.

  --mode NAMES   comma-separated; by default kube-proxy-iptables,iptables,nftables,userspace.
                 One of: ${ways.map(({ name }) => name).join(', ')}; all
  --focus REGEX  only specs whose name matches; by default those of a service proxy, but for LoadBalancers, which
                 take minutes each (--focus LoadBalancers)
  --if-built     does nothing, and says so, where Kubernetes has not been built yet
  --measure      in place of the specs: CPU, memory, latency of changes, a rolling update, churn
  --deploy       in place of the specs: Usher as users install it, in each of the modes, by kustomize and Helm; what it is asked to
                 bear; and that nothing is left when it is taken away
  --stay         with the last mode the cluster stays until ^C, for a look at it

Needs root on Linux, Debian's packages (installed if they are missing), Go ${versions.go} and its module proxy for the
first run, which builds Kubernetes in some 25 minutes on two cores; 12 GB below ${cache}
(USHER_CLUSTER_CACHE), 8 GB of memory. Results: ${cache}/results.
`

const options = {
  mode: { type: 'string', default: 'kube-proxy-iptables,iptables,nftables,userspace' },
  focus: { type: 'string' },
  'if-built': { type: 'boolean', default: false },
  measure: { type: 'boolean', default: false },
  deploy: { type: 'boolean', default: false },
  stay: { type: 'boolean', default: false },
  inside: { type: 'string' },
  help: { type: 'boolean', default: false },
} as const

const waysOf = (mode: string): readonly Way[] => {
  if (mode === 'all') return ways
  return mode.split(',').map(name => {
    const way = ways.find(one => one.name === name)
    if (way === undefined)
      throw new Error(
        `--mode ${name}: there are ${ways.map(one => one.name).join(', ')}, all`,
      )
    return way
  })
}

const results = join(cache, 'results')

interface Wanted {
  readonly ways: readonly Way[]
  readonly focus: string | undefined
  readonly measures: boolean
  readonly deploys: boolean
  readonly stays: boolean
}

/** In the namespaces that keeper.sh has made. */
const inside = async (state: string, wanted: Wanted): Promise<number> => {
  const began = performance.now()
  const [cluster, nodes] = await step('cluster', () => startCluster(state))
  try {
    const code = await run(cluster, nodes, wanted)
    process.stderr.write(`${((performance.now() - began) / 60_000).toFixed(1)} minutes\n`)
    if (wanted.stays) await remain(state)
    return code
  } finally {
    for (const { name, folder } of nodes) {
      const kept = join(results, `log-${name}`)
      await rm(kept, { recursive: true, force: true })
      await cp(join(folder, 'log'), kept, { recursive: true, filter: isKept })
    }
    await removeProxy(nodes)
  }
}

const isKept = async (path: string): Promise<boolean> => {
  const found = await lstat(path)
  return found.isFile() || found.isDirectory()
}

const run = (
  cluster: Cluster,
  nodes: readonly Node[],
  wanted: Wanted,
): Promise<number> => {
  if (wanted.deploys) return deployAll(cluster, nodes, wanted.ways)
  if (wanted.measures) return measureAll(cluster, nodes, wanted.ways)
  return runAll(cluster, nodes, wanted)
}

const deployAll = async (
  cluster: Cluster,
  nodes: readonly Node[],
  all: readonly Way[],
): Promise<number> => {
  await loadUsherImage(nodes)
  const done: Deployed[] = []
  for (const { name, proxy, mode } of all)
    if (proxy === 'usher') done.push(await deploy(cluster, nodes, name, mode))
  const table = deployTable(done)
  await writeFile(join(results, 'deploy.md'), `${table}\n`)
  process.stdout.write(`${table}\n`)
  return done.some(({ faults }) => faults.length > 0) ? 1 : 0
}

const runAll = async (
  cluster: Cluster,
  nodes: readonly Node[],
  { ways: all, focus }: Wanted,
): Promise<number> => {
  const byWay = new Map<string, Results>()
  const stopBalancer =
    focus === undefined ? undefined : await startLoadBalancer(cluster, nodes)
  try {
    for (const way of all) {
      await change(cluster, nodes, way, byWay.size === 0)
      const folder = join(results, way.name)
      const specs = () => runSpecs(cluster, folder, focus)
      byWay.set(way.name, await step(`${way.name}: specs`, specs))
    }
  } finally {
    await stopBalancer?.()
  }
  return await report(byWay)
}

const measureAll = async (
  cluster: Cluster,
  nodes: readonly Node[],
  all: readonly Way[],
): Promise<number> => {
  const byWay = new Map<string, Measures>()
  for (const way of all) {
    await change(cluster, nodes, way, byWay.size === 0)
    if (byWay.size === 0) await prepareMeasures(cluster)
    byWay.set(
      way.name,
      await step(`${way.name}: measurements`, () => measure(cluster, nodes)),
    )
  }
  const table = measuresTable(byWay)
  await writeFile(join(results, 'measures.md'), `${table}\n`)
  await writeFile(join(results, 'rolling-update.svg'), rollingPicture(rollingBars(byWay)))
  process.stdout.write(`${table}\n`)
  return 0
}

const change = async (
  cluster: Cluster,
  nodes: readonly Node[],
  way: Way,
  isFirst: boolean,
): Promise<void> => {
  await step(`${way.name} on all nodes`, () => changeProxy(cluster, nodes, way))
  if (isFirst) await step('CoreDNS', () => startDns(cluster))
}

const startCluster = async (
  state: string,
): Promise<readonly [Cluster, readonly Node[]]> => {
  const registry = await registryOfTests()
  const archives = await imageArchives(registry)
  const cluster: Cluster = {
    state,
    pki: join(state, 'pki'),
    registry,
    daemons: new Map(),
  }
  for (const one of ['pki', 'log']) await mkdir(join(state, one), { recursive: true })
  await makeNetwork()
  await makeCertificates(cluster)
  await step('control plane', () => startControlPlane(cluster))
  const nodes: Node[] = []
  for (const name of nodeNames) {
    const node = await step(`node ${name}`, async () => {
      const made = await makeNode(cluster, name)
      await startNode(cluster, made, archives)
      return made
    })
    nodes.push(node)
  }
  await joinPods(cluster, nodes)
  return [cluster, nodes]
}

const report = async (byWay: ReadonlyMap<string, Results>): Promise<number> => {
  const expected = JSON.parse(
    await readFile(join(here, 'expected.json'), 'utf8'),
  ) as readonly Expected[]
  const table = tableOf(byWay, expected)
  await writeFile(join(results, 'table.md'), `${table}\n`)
  process.stdout.write(`${table}\n\n`)
  const others = surprises(byWay, expected)
  for (const line of others) process.stdout.write(`${line}\n`)
  process.stdout.write(
    others.length === 0
      ? 'All as expected.\n'
      : `${others.length} other than expected (test/cluster/expected.json).\n`,
  )
  return others.length === 0 ? 0 : 1
}

const remain = async (state: string): Promise<void> => {
  process.stderr.write(
    `The cluster stays until ^C. A shell in it: nsenter -t $(pgrep -f 'main.ts --inside' | tail -1) -n -m -p bash; kubeconfig: ${state}/pki/admin.conf\n`,
  )
  await new Promise(() => setInterval(() => {}, 60_000))
}

/** Builds what is missing, then runs `inside` in the namespaces of a keeper. */
const outside = async (
  ifBuilt: boolean,
  deploys: boolean,
  args: readonly string[],
): Promise<number> => {
  if (process.platform !== 'linux' || process.getuid?.() !== 0)
    throw new Error('a cluster wants root on Linux')
  const missing = missingPrograms()
  if (ifBuilt && missing.length > 0) {
    process.stdout.write(
      `NOT RUN: Kubernetes' own tests on a real cluster: ${missing.join(', ')} not built yet (npm run test:cluster builds them).\n`,
    )
    return 0
  }
  await mkdir(results, { recursive: true })
  await output([join(top, 'scripts/test-packages.sh'), '--cluster'])
  await buildPrograms()
  await imageArchives(await registryOfTests())
  if (deploys) await makeUsherImage()
  const state = join(cache, 'state')
  const keeper = spawn(
    'bash',
    [
      join(here, 'keeper.sh'),
      state,
      join(cache, 'lock'),
      process.execPath,
      ...process.execArgv,
      join(here, 'main.ts'),
      '--inside',
      state,
      ...args,
    ],
    // ^C is for this process; that it ends is what the keeper hears.
    { stdio: ['pipe', 'inherit', 'inherit'], detached: true },
  )
  const stop = (): void => void keeper.stdin?.end()
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, stop)
  const [code] = (await once(keeper, 'exit')) as [number | null]
  if (existsSync(state)) process.stderr.write(`${state} is left\n`)
  return code ?? 1
}

const main = async (): Promise<number> => {
  const { values } = parseArgs({ options })
  if (values.help) {
    process.stdout.write(help)
    return 0
  }
  const wanted = {
    ways: waysOf(values.mode),
    focus: values.focus,
    measures: values.measure,
    deploys: values.deploy,
    stays: values.stay,
  }
  if (values.inside !== undefined) return await inside(values.inside, wanted)
  return await outside(values['if-built'], values.deploy, process.argv.slice(2))
}

try {
  // The daemons of the cluster end with this process, and not before.
  process.exit(await main())
} catch (error) {
  process.stderr.write(`${(error as Error).message}\n`)
  process.exit(2)
}
