import { readdirSync, readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { adminConfig, apply, type Cluster, clusterIpOf, kubectl } from './cluster.ts'
import { agnhostImage } from './images.ts'
import { type Node, on, startOn, stopOn } from './nodes.ts'
import { here, program } from './programs.ts'
import { proxyDaemon } from './service-proxies.ts'
import type { Bar } from './rolling-picture.ts'
import { output, succeeds } from './run-command.ts'
import { until } from '../support/until.ts'

export interface Load {
  readonly asked: number
  readonly failed: number
  readonly why: Readonly<Record<string, number>>
  readonly p50: number
  readonly p99: number
  /** How often a connection that is kept open and used ten times a second was lost. */
  readonly cut: number
}

interface Figures {
  readonly median: number
  readonly max: number
}

/** What a way's users feel, and what it costs on one node. */
export interface Measures {
  /** Seconds of CPU in 30 s. */
  readonly idleCpu: number
  readonly pssMiB: number
  /** Milliseconds, beyond the time that Kubernetes' controllers take. */
  readonly made: Figures
  readonly removed: Figures
  /** New connections while pods that end at once are replaced; by client. */
  readonly rolling: Readonly<Record<'node' | 'pod' | 'outside' | 'haproxy', Load>>
  readonly churnCpu: number
}

/** Pods and a Service for all measurements. */
export const prepareMeasures = async (cluster: Cluster): Promise<void> => {
  const manifest = await readFile(join(here, 'web.yaml'), 'utf8')
  await apply(cluster, manifest.replaceAll('@AGNHOST@', agnhostImage(cluster.registry)))
  await webRolledOut(cluster)
  await kubectl(cluster, 'wait', 'pod/client', '--for=condition=Ready', '--timeout=60s')
}

/** All its pods are replaced. */
export const updateWeb = async (cluster: Cluster): Promise<void> => {
  await kubectl(cluster, 'rollout', 'restart', 'deployment/web')
  await webRolledOut(cluster)
}

const webRolledOut = async (cluster: Cluster): Promise<void> => {
  await kubectl(cluster, 'rollout', 'status', 'deployment/web', '--timeout=90s')
  await until(
    'the old pods are gone',
    async () => {
      const pods = await kubectl(cluster, 'get', 'pods', '-l', 'app=web', '-o', 'name')
      return pods.trim().split('\n').length === 4
    },
    60_000,
  )
}

const quietMs = 30_000
/** A process that has started gives memory back for half a minute: V8's collections, 0.1 s of CPU. */
const settleMs = 45_000

export const measure = async (
  cluster: Cluster,
  [node, other]: readonly Node[],
): Promise<Measures> => {
  if (node === undefined || other === undefined) throw new Error('no nodes')
  await sleep(settleMs)
  const pid = node.daemons.get(proxyDaemon)?.pid ?? 0
  const idleCpu = await cpuWhile(pid, () => sleep(quietMs))
  const pssMiB = processesOf(pid).reduce((sum, one) => sum + pssOf(one), 0)
  const latency = await output(
    on(node, process.execPath, join(here, 'latency.mjs'), adminConfig(cluster), '20'),
  )
  const { made, removed } = JSON.parse(latency) as { made: Figures; removed: Figures }
  const rolling = await rollingUpdate(cluster, node, other)
  const churnCpu = await cpuWhile(pid, () => churn(cluster))
  return { idleCpu, pssMiB, made, removed, rolling, churnCpu }
}

/** Requests for so many seconds, each with a connection of its own; `enter`: where they come from. */
export const load = async (
  enter: readonly string[],
  host: string,
  port: string,
  seconds: number,
): Promise<Load> => {
  const script = [process.execPath, join(here, 'load.mjs'), host, port, String(seconds)]
  return JSON.parse(await output([...enter, ...script])) as Load
}

const rollingUpdate = async (
  cluster: Cluster,
  node: Node,
  other: Node,
): Promise<Measures['rolling']> => {
  const vip = await clusterIpOf(cluster, 'web')
  const inPod = await enterPod(node, 'client')
  startOn(node, 'haproxy', 'haproxy', '-db', '-f', join(here, 'haproxy.cfg'))
  try {
    const byHaproxy = ['curl', '-sf', '-o', '/dev/null', 'http://127.0.0.1:8080/']
    await until('HAProxy serves', () => succeeds(on(node, ...byHaproxy)))
    const loads = Promise.all([
      load(on(node), vip, '80', 25),
      load(inPod, vip, '80', 25),
      load([], other.ipv4, '30080', 25),
      load(on(node), '127.0.0.1', '8080', 25),
    ])
    await sleep(4_000)
    await updateWeb(cluster)
    const [ofNode, ofPod, outside, haproxy] = await loads
    return { node: ofNode, pod: ofPod, outside, haproxy }
  } finally {
    await stopOn(node, 'haproxy')
  }
}

const proxied = ['node', 'pod', 'outside'] as const

/** A bar for each way, of its three clients together, and one for HAProxy, of the median of its runs. */
export const rollingBars = (byWay: ReadonlyMap<string, Measures>): readonly Bar[] => {
  const sum = (loads: readonly Load[]) => ({
    failed: loads.reduce((all, one) => all + one.failed, 0),
    asked: loads.reduce((all, one) => all + one.asked, 0),
  })
  const haproxy = Array.from(byWay.values(), ({ rolling }) => rolling.haproxy).toSorted(
    (a, b) => a.failed - b.failed,
  )
  const middle = haproxy.length >> 1
  return [
    ...Array.from(byWay, ([name, { rolling }]): Bar => {
      const isPeer = name.startsWith('kube-proxy')
      const look = isPeer ? 'peer' : 'usher'
      const of = proxied.map(client => rolling[client])
      return { name: isPeer ? name : `Usher, ${name}`, look, ...sum(of) }
    }),
    { name: 'HAProxy, by DNS', look: 'peer', ...sum(haproxy.slice(middle, middle + 1)) },
  ]
}

/** What a command begins with that runs in the network of a pod with this host name. */
export const enterPod = async (
  node: Node,
  hostname: string,
): Promise<readonly string[]> => {
  const tasks = await output(on(node, program('ctr'), '-n', 'k8s.io', 'task', 'ls', '-q'))
  for (const id of tasks.trim().split('\n')) {
    const ps = await output(on(node, program('ctr'), '-n', 'k8s.io', 'task', 'ps', id))
    const pid = /^\d+/m.exec(ps)?.[0] ?? ''
    const file = `/proc/${pid}/root/etc/hostname`
    const name = await readFile(file, 'utf8').catch(() => '')
    if (name.trim() === hostname) return ['nsenter', '-t', pid, '-n', '--']
  }
  throw new Error(`no pod ${hostname} on ${node.name}`)
}

const churnedServices = 200

/** Services with an endpoint each, one of which moves each 100 ms; 30 s in all. */
const churn = async (cluster: Cluster): Promise<void> => {
  const ends = sleep(quietMs)
  const all = Array.from({ length: churnedServices }, (_, i) => i)
  await apply(cluster, all.map(i => `${service(i)}\n${slice(i, 1)}`).join('\n'))
  const end = performance.now() + 15_000
  for (let i = 0; performance.now() < end; i += 1) {
    const moved = [{ addresses: [`10.244.0.${2 + (i % 250)}`] }]
    const patch = JSON.stringify({ endpoints: moved })
    const name = `endpointslice/churn-${i % churnedServices}`
    await kubectl(cluster, 'patch', name, '--type=merge', '-p', patch)
  }
  await kubectl(
    cluster,
    'delete',
    'service,endpointslice',
    '-l',
    'is=churn',
    '--wait=false',
  )
  await ends
}

const service = (i: number): string => `---
apiVersion: v1
kind: Service
metadata: {name: churn-${i}, labels: {is: churn}}
spec: {ports: [{name: http, port: 80, targetPort: 8080}]}
---`

const slice = (i: number, host: number): string => `apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: churn-${i}, labels: {is: churn, kubernetes.io/service-name: churn-${i}}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [10.244.0.${host + 1}]}]`

/** A process and all below it. */
const processesOf = (pid: number): readonly number[] => {
  const parents = readdirSync('/proc').flatMap(name => {
    const stat = /^\d+$/.test(name) ? statOf(Number(name)) : undefined
    return stat === undefined ? [] : [[Number(name), Number(stat[1])] as const]
  })
  const below = (of: number): readonly number[] => [
    of,
    ...parents.filter(([, parent]) => parent === of).flatMap(([one]) => below(one)),
  ]
  return below(pid)
}

/** Fields of /proc/PID/stat from the state on (proc_pid_stat(5), field 3); undefined when it is gone. */
const statOf = (pid: number): readonly string[] | undefined => {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  } catch {
    return undefined
  }
}

/** utime, stime, cutime, cstime, in ticks of 10 ms: of it and of its children that have ended. */
const cpuOf = (pid: number): number =>
  (statOf(pid) ?? []).slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0) / 100

const cpuWhile = async (pid: number, does: () => Promise<void>): Promise<number> => {
  const all = (): number => processesOf(pid).reduce((sum, one) => sum + cpuOf(one), 0)
  const before = all()
  await does()
  return Number((all() - before).toFixed(2))
}

const pssOf = (pid: number): number => {
  const text = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8')
  return Math.round(Number(/^Pss:\s+(\d+)/m.exec(text)?.[1] ?? 0) / 1024)
}

/** One table of Markdown, a column a way. */
export const measuresTable = (byWay: ReadonlyMap<string, Measures>): string => {
  const rows: readonly (readonly [string, (of: Measures) => string])[] = [
    ['CPU idle, s in 30 s', of => of.idleCpu.toFixed(2)],
    ['PSS idle, MiB', of => String(of.pssMiB)],
    ['Service made to first answer, ms, median / max', of => both(of.made)],
    ['Service removed to no answer, ms, median / max', of => both(of.removed)],
    ...([...proxied, 'haproxy'] as const).map(
      client =>
        [
          `rolling update, client ${client}: failed of asked`,
          (of: Measures) => failures(of.rolling[client]),
        ] as const,
    ),
    ['CPU, 200 Services made and churned, s', of => of.churnCpu.toFixed(2)],
  ]
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`
  const all = [...byWay.values()]
  return [
    line(['', ...byWay.keys()]),
    line(['---', ...all.map(() => '---')]),
    ...rows.map(([name, cell]) => line([name, ...all.map(cell)])),
  ].join('\n')
}

const both = ({ median, max }: Figures): string => `${median} / ${max}`

const failures = ({ failed, asked, why }: Load): string =>
  [`${failed} of ${asked}`, ...Object.entries(why).map(one => one.join(' '))].join(' ')
