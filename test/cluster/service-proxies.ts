import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Cluster, podsCidrs, proxyConfig } from './cluster.ts'
import { cgroup2Of, type Node, on, startOn, stopOn } from './nodes.ts'
import { program, top } from './programs.ts'
import { output, succeeds } from './run-command.ts'
import { nodeOptions } from './usher-image.ts'
import { until } from '../support/until.ts'

/** A service proxy of all nodes, in a mode of its. */
export interface Way {
  readonly name: string
  readonly proxy: 'kube-proxy' | 'usher'
  readonly mode: string
  /** `@CGROUP2@`: the node's cgroup of version 2. */
  readonly flags: readonly string[]
}

const usher = (name: string, mode: string, ...flags: readonly string[]): Way => ({
  name,
  proxy: 'usher',
  mode,
  flags,
})

export const ways: readonly Way[] = [
  { name: 'kube-proxy-iptables', proxy: 'kube-proxy', mode: 'iptables', flags: [] },
  { name: 'kube-proxy-nftables', proxy: 'kube-proxy', mode: 'nftables', flags: [] },
  usher('iptables', 'iptables'),
  usher('nftables', 'nftables'),
  usher('userspace', 'userspace'),
  usher('userspace-iptables', 'userspace', '--capture=iptables'),
  usher('userspace-local', 'userspace', '--capture=local'),
  usher(
    'connect-time',
    'nftables',
    '--connect-time=on',
    '--connect-time-cgroup=@CGROUP2@',
  ),
]

/** Usher as it was built in this tree. */
const usherProgram = join(top, 'dist/usher.js')

/** What a service proxy's process is called among those of its node. */
export const proxyDaemon = 'proxy'

/** In place of the one before, whose rules go; resolves when all nodes are healthy. */
export const changeProxy = async (
  cluster: Cluster,
  nodes: readonly Node[],
  way: Way,
): Promise<void> => {
  await removeProxy(nodes)
  for (const node of nodes) await startProxy(cluster, node, way)
  for (const node of nodes)
    await until(
      `${way.name} on ${node.name} is healthy`,
      () =>
        succeeds(
          on(node, 'curl', '-sf', '-o', '/dev/null', 'http://127.0.0.1:10256/healthz'),
        ),
      60_000,
    )
}

/** With all of its rules, and those of the other one: neither knows all that the other leaves. */
export const removeProxy = async (nodes: readonly Node[]): Promise<void> => {
  for (const node of nodes) {
    await stopOn(node, proxyDaemon)
    await output(on(node, process.execPath, usherProgram, 'cleanup'))
    await output(on(node, program('kube-proxy'), '--cleanup'))
  }
}

export const startProxy = async (
  cluster: Cluster,
  node: Node,
  way: Way,
): Promise<void> => {
  const config = join(node.folder, 'proxy.json')
  await writeFile(
    config,
    JSON.stringify({
      apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
      kind: 'KubeProxyConfiguration',
      mode: way.mode,
      hostnameOverride: node.name,
      clusterCIDR: podsCidrs,
      clientConnection: { kubeconfig: proxyConfig(cluster) },
      conntrack: { maxPerCore: 0 },
      metricsBindAddress: '127.0.0.1:10249',
    }),
  )
  const flags = way.flags.map(flag => flag.replace('@CGROUP2@', cgroup2Of(node)))
  const command =
    way.proxy === 'kube-proxy'
      ? [program('kube-proxy'), `--config=${config}`, '--v=1']
      : [process.execPath, nodeOptions, usherProgram, 'run', '--config', config, ...flags]
  startOn(node, proxyDaemon, ...command)
}
