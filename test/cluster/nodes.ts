import type { ChildProcess } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import {
  type Cluster,
  controlAddresses,
  kubectl,
  nodeAddresses,
  type NodeName,
  nodeNames,
} from './cluster.ts'
import { pauseImage } from './images.ts'
import { here, program, programsFolder } from './programs.ts'
import { output, startDaemon, stopDaemon, succeeds } from './run-command.ts'
import { until } from '../support/until.ts'

export interface Node {
  readonly name: string
  readonly zone: string
  readonly ipv4: string
  readonly ipv6: string
  readonly folder: string
  /** Process that holds its namespaces. */
  readonly pid: number
  readonly daemons: Map<string, ChildProcess>
}

/** A command that runs in the namespaces of a node. */
export const on = ({ pid }: Node, ...command: readonly string[]): readonly string[] => [
  'nsenter',
  '-t',
  String(pid),
  '-n',
  '-m',
  '-u',
  '--',
  ...command,
]

/** A daemon of a node, in the node's cgroup. */
export const startOn = (
  node: Node,
  name: string,
  ...command: readonly string[]
): void => {
  const enter = cgroupRoots()
    .map(root => `echo $$ >${join(daemonsIn(root, node.name), 'cgroup.procs')}`)
    .join(' && ')
  const inCgroup = ['bash', '-c', `${enter} && exec "$@"`, name, ...command]
  const log = join(node.folder, 'log', `${name}.log`)
  const env = { PATH: `${programsFolder}:${process.env['PATH']}` }
  node.daemons.set(name, startDaemon(on(node, ...inCgroup), log, env))
}

/** nsenter becomes what it starts: a signal for it is one for the daemon. */
export const stopOn = async ({ daemons }: Node, name: string): Promise<void> => {
  const daemon = daemons.get(name)
  if (daemon === undefined) return
  daemons.delete(name)
  await stopDaemon(daemon)
}

/** Those of version 1 each, or the one of version 2. */
const cgroupRoots = (): readonly string[] => {
  if (existsSync(join(version2, 'cgroup.controllers'))) return [version2]
  return (
    readdirSync(version2, { withFileTypes: true })
      .filter(entry => entry.isDirectory())
      .map(({ name }) => join(version2, name))
      // Not a folder that waits for a mount.
      .filter(root => existsSync(join(root, 'cgroup.procs')))
  )
}

const version2 = '/sys/fs/cgroup'

/** In version 2 a cgroup with processes has none below it that has controllers, as pods do. */
const daemonsIn = (root: string, node: string): string =>
  join(root, 'usher-cluster', node, root === version2 ? 'daemons' : '.')

/** Where connect-time steering attaches on a node. */
export const cgroup2Of = (node: Node): string => {
  const root = cgroupRoots().find(one => existsSync(join(one, 'cgroup.controllers')))
  if (root === undefined) throw new Error('there is no cgroup v2')
  return join(root, 'usher-cluster', node.name)
}

/** The bridge that joins nodes and control plane; there is no way out of it. */
export const makeNetwork = async (): Promise<void> => {
  const { ipv4, ipv6 } = controlAddresses
  for (const line of [
    'ip link set lo up',
    'ip link add nodes type bridge',
    'ip link set nodes up',
    'sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.nodes.accept_dad=0',
    `ip addr add ${ipv4}/24 dev nodes`,
    `ip addr add ${ipv6}/64 dev nodes nodad`,
  ])
    await output(line.split(' '))
}

/** Its namespaces, network and cgroups. */
export const makeNode = async (cluster: Cluster, name: NodeName): Promise<Node> => {
  const folder = join(cluster.state, name)
  const { ipv4, ipv6 } = nodeAddresses(name)
  const zone = `zone-${'abc'.charAt(nodeNames.indexOf(name))}`
  await mkdir(join(folder, 'log'), { recursive: true })
  for (const root of cgroupRoots()) await makeCgroup(root, name)
  const init = startDaemon(
    [
      'unshare',
      '--net',
      '--mount',
      '--uts',
      '--propagation',
      'private',
      'bash',
      join(here, 'node-init.sh'),
      name,
      folder,
    ],
    join(folder, 'log', 'init.log'),
  )
  await until(`the namespaces of ${name}`, () => existsSync(join(folder, 'ready')))
  const node = { name, zone, ipv4, ipv6, folder, pid: init.pid ?? 0, daemons: new Map() }
  await output(
    `ip link add ${name} type veth peer name eth0 netns ${node.pid}`.split(' '),
  )
  await output(`ip link set ${name} master nodes up`.split(' '))
  for (const line of [
    'ip link set lo up',
    `ip addr add ${ipv4}/24 dev eth0`,
    `ip addr add ${ipv6}/64 dev eth0 nodad`,
    'ip link set eth0 up',
    `ip route add default via ${controlAddresses.ipv4}`,
    `ip -6 route add default via ${controlAddresses.ipv6}`,
  ])
    await output(on(node, ...line.split(' ')))
  return node
}

const makeCgroup = async (root: string, name: string): Promise<void> => {
  await mkdir(daemonsIn(root, name), { recursive: true })
  if (root.endsWith('/cpuset'))
    for (const file of ['cpuset.cpus', 'cpuset.mems'])
      for (const at of ['usher-cluster', join('usher-cluster', name)])
        await output(['bash', '-c', `cat ${root}/${file} >${root}/${at}/${file}`])
  if (root !== version2) return
  const controllers = '+cpu +cpuset +memory +pids +io'
  for (const at of ['.', 'usher-cluster'])
    await writeFile(join(root, at, 'cgroup.subtree_control'), controllers)
}

/** containerd, its images, and the kubelet. */
export const startNode = async (
  cluster: Cluster,
  node: Node,
  archives: readonly string[],
): Promise<void> => {
  const config = join(node.folder, 'containerd.toml')
  await writeFile(config, containerdConfig(cluster))
  startOn(node, 'containerd', program('containerd'), '-c', config)
  const ctr = on(node, program('ctr'), '-n', 'k8s.io')
  await until(`containerd on ${node.name}`, () => succeeds([...ctr, 'version']))
  for (const archive of archives) await output([...ctr, 'images', 'import', archive])
  await startKubelet(cluster, node)
}

/** As a file with a newer format would have it; `restrict_oom_score_adj`: root may lack CAP_SYS_RESOURCE. */
const containerdConfig = ({ registry }: Cluster): string => `version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
address = "/run/containerd/containerd.sock"
[plugins.'io.containerd.cri.v1.images']
snapshotter = "overlayfs"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "${pauseImage(registry)}"
[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
SystemdCgroup = false
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ["/opt/cni/bin"]
conf_dir = "/etc/cni/net.d"
`

export const startKubelet = async (cluster: Cluster, node: Node): Promise<void> => {
  const { pki } = cluster
  const config = join(node.folder, 'kubelet.json')
  await writeFile(
    config,
    JSON.stringify({
      apiVersion: 'kubelet.config.k8s.io/v1beta1',
      kind: 'KubeletConfiguration',
      authentication: {
        anonymous: { enabled: false },
        webhook: { enabled: true },
        x509: { clientCAFile: join(pki, 'ca.crt') },
      },
      authorization: { mode: 'Webhook' },
      tlsCertFile: join(pki, `${node.name}.crt`),
      tlsPrivateKeyFile: join(pki, `${node.name}.key`),
      cgroupDriver: 'cgroupfs',
      cgroupRoot: `/usher-cluster/${node.name}`,
      enforceNodeAllocatable: [],
      failCgroupV1: false,
      failSwapOn: false,
      clusterDNS: ['10.96.0.10'],
      clusterDomain: 'cluster.local',
      containerRuntimeEndpoint: 'unix:///run/containerd/containerd.sock',
      evictionHard: {
        'memory.available': '50Mi',
        'nodefs.available': '1%',
        'imagefs.available': '1%',
      },
      imageGCHighThresholdPercent: 100,
      resolvConf: join(node.folder, 'resolv.conf'),
      maxPods: 200,
      kubeAPIQPS: 100,
      kubeAPIBurst: 200,
    }),
  )
  startOn(
    node,
    'kubelet',
    program('kubelet'),
    `--config=${config}`,
    `--kubeconfig=${join(pki, `${node.name}.conf`)}`,
    `--hostname-override=${node.name}`,
    `--node-ip=${node.ipv4},${node.ipv6}`,
    '--v=1',
  )
}

/** The network of pods: CNI's plugins of Debian, and a route for each node's pods everywhere. */
export const joinPods = async (
  cluster: Cluster,
  nodes: readonly Node[],
): Promise<void> => {
  for (const node of nodes) {
    const cidrs = await podCidrs(cluster, node)
    const [ipv4 = '', ipv6 = ''] = cidrs
    await mkdir(join(node.folder, 'cni/net.d'), { recursive: true })
    await writeFile(join(node.folder, 'cni/net.d/10-pods.conflist'), cniConfig(cidrs))
    const others = nodes.filter(one => one !== node)
    for (const at of [[], ...others.map(one => on(one))]) {
      await output([...at, 'ip', 'route', 'replace', ipv4, 'via', node.ipv4])
      await output([...at, 'ip', '-6', 'route', 'replace', ipv6, 'via', node.ipv6])
    }
    await kubectl(
      cluster,
      'label',
      '--overwrite',
      'node',
      node.name,
      `topology.kubernetes.io/zone=${node.zone}`,
    )
  }
}

const podCidrs = async (cluster: Cluster, { name }: Node): Promise<readonly string[]> => {
  let cidrs: readonly string[] = []
  await until(
    `CIDRs for pods of ${name}`,
    async () => {
      const told = await kubectl(
        cluster,
        'get',
        'node',
        name,
        '--ignore-not-found',
        '-o',
        'jsonpath={.spec.podCIDRs[*]}',
      )
      cidrs = told.split(' ').filter(one => one !== '')
      return cidrs.length === 2
    },
    60_000,
  )
  return cidrs
}

const cniConfig = (cidrs: readonly string[]): string =>
  JSON.stringify({
    cniVersion: '0.4.0',
    name: 'pods',
    plugins: [
      {
        type: 'ptp',
        ipMasq: false,
        mtu: 1500,
        ipam: {
          type: 'host-local',
          dataDir: '/run/cni-ipam-state',
          routes: [{ dst: '0.0.0.0/0' }, { dst: '::/0' }],
          ranges: cidrs.map(subnet => [{ subnet }]),
        },
      },
      { type: 'portmap', capabilities: { portMappings: true } },
    ],
  })
