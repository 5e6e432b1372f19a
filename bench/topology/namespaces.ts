import { type RunTool, runTool } from '../../src/kernel/run-tool.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import { unreachable } from './probe.ts'
import type { Lane, Place, Topology } from './topology.ts'

/** What a node and its neighbours are called, where they are, and what leads to it. */
interface LanePlan {
  /** The node's namespace, and the interfaces that lead to it. */
  readonly name: string
  readonly client: Link
  readonly pods: readonly Link[]
  readonly clusterCidr: string
  readonly clusterIp: NonNullable<Lane['clusterIp']>
}

/** A subnet of two: a neighbour and the node. */
interface Link {
  readonly subnet: string
  readonly prefixLength: number
  readonly node: string
  readonly neighbour: string
}

/** Each has an octet of its own in all of its addresses. */
const mostLanes = 250
const clusterIps = 65_000

/**
 * Plans the n-th lane, from 1. No address is in two lanes, so that client and pods, which
 * are in all of them, always know which node to send to. Throws RangeError beyond 250.
 */
export const planLane = (n: number, pods: number): LanePlan => {
  if (n < 1 || n > mostLanes)
    throw new RangeError(`lane ${n}: there are addresses for ${mostLanes}, from 1`)
  return {
    name: `lane-${n}`,
    client: linkAt(`172.16.${n}`),
    pods: Array.from({ length: pods }, (_, pod) => linkAt(`172.${17 + pod}.${n}`)),
    clusterCidr: `10.${n}.0.0/16`,
    clusterIp: index => clusterIpOf(n, index),
  }
}

const linkAt = (prefix: string): Link => ({
  subnet: `${prefix}.0/24`,
  prefixLength: 24,
  node: `${prefix}.1`,
  neighbour: `${prefix}.2`,
})

/** The first 256 of the range stay unused, as do its last. */
const clusterIpOf = (lane: number, index: number): string => {
  if (!Number.isInteger(index) || index < 0 || index >= clusterIps)
    throw new RangeError(`ClusterIP ${index}: there are ${clusterIps}, from 0`)
  const host = 256 + index
  return `10.${lane}.${host >> 8}.${host & 255}`
}

/**
 * Lines for `ip -batch`. Client and pods call the interface to a node by the node's name,
 * the node calls its interfaces by theirs.
 */
const clientLines = ({ name, client, pods, clusterCidr }: LanePlan) => [
  ...neighbourLines(name, 'client', client),
  ...[clusterCidr, ...pods.map(({ subnet }) => subnet)].map(
    range => `route add ${range} via ${client.node}`,
  ),
]

/** The way back is needed without a proxy in between, and by kernel modes. */
const podLines = ({ name, client, pods }: LanePlan, pod: string, index: number) => {
  const link = linkOf(pods, index)
  return [
    ...neighbourLines(name, pod, link),
    `route add ${client.subnet} via ${link.node}`,
  ]
}

const nodeLines = ({ client, pods }: LanePlan, names: readonly string[]) => [
  ...addressLines('client', client.node, client),
  ...names.flatMap((pod, index) => {
    const link = linkOf(pods, index)
    return addressLines(pod, link.node, link)
  }),
]

/** The pair is made from here; its other end is in the node at once. */
const neighbourLines = (node: string, own: string, link: Link): readonly string[] => [
  `link add name ${node} type veth peer name ${own} netns ${node}`,
  ...addressLines(node, link.neighbour, link),
]

const addressLines = (device: string, address: string, { prefixLength }: Link) => [
  `address add ${address}/${prefixLength} dev ${device}`,
  `link set ${device} up`,
]

const linkOf = (links: readonly Link[], index: number): Link => {
  const link = links[index]
  if (link === undefined) throw new RangeError(`pod ${index + 1} has no link`)
  return link
}

/** A setting of one network namespace, by its path below /proc/sys/net. */
interface Sysctl {
  readonly path: string
  readonly value: string
  /** Leaves a higher figure as it is. */
  readonly atLeast?: boolean
}

/** The same in all namespaces, whatever the host they are made on has. */
const shared: readonly Sysctl[] = [
  // Tens of thousands of short connections a minute, each of which keeps its port for one.
  { path: 'ipv4/tcp_tw_reuse', value: '1' },
  { path: 'ipv4/ip_local_port_range', value: '32768 65535' },
  { path: 'core/somaxconn', value: '4096', atLeast: true },
  // Off, as most CNI plugins need it; `default` is for interfaces that come later.
  { path: 'ipv4/conf/all/rp_filter', value: '0' },
  { path: 'ipv4/conf/default/rp_filter', value: '0' },
]

const forwarding = 'ipv4/ip_forward'

/** What is set, for people. */
const sysctlWords = shared
  .filter(({ path }) => !path.includes('/default/'))
  .map(
    ({ path, value, atLeast }) =>
      `net.${path.replaceAll('/', '.')}${atLeast === true ? ' at least ' : '='}${value}`,
  )
  .join(', ')

/**
 * Sets a namespace's sysctls; a node forwards, too. Gives those that could not be set.
 * Rejects when that is forwarding, without which there is no way to the pods.
 */
const setSysctls = async (
  run: RunTool,
  namespace: string,
  isNode: boolean,
): Promise<readonly string[]> => {
  const wanted = isNode ? [...shared, { path: forwarding, value: '1' }] : shared
  const script = wanted.map(lineOf).join('\n')
  const unset = await run('ip', ['netns', 'exec', namespace, '/bin/sh', '-c', script])
  const paths = unset.split('\n').filter(Boolean)
  if (paths.includes(forwarding))
    throw new Error(
      `${namespace}: net.ipv4.ip_forward can't be set, so it can't be a node`,
    )
  return paths.map(path => `net.${path.replaceAll('/', '.')}`)
}

/** By way of the shell, because sysctl(8) is not everywhere; prints what it can't set. */
const lineOf = ({ path, value, atLeast }: Sysctl): string => {
  const file = `/proc/sys/net/${path}`
  const set = `(echo ${value} > ${file}) 2>/dev/null || echo ${path}`
  return atLeast === true ? `[ "$(cat ${file})" -ge ${value} ] || ${set}` : set
}

const clientName = 'client'
const podNames = ['pod-1', 'pod-2'] as const

/**
 * Client and pods in network namespaces of their own; nodes are added as lanes are asked
 * for. The sandbox is asked for because names and links would be the host's outside of one.
 * Rejects (ToolError) when they can't be made.
 */
export const namespaces = async (
  sandbox: Sandbox,
  run: RunTool = runTool,
): Promise<Topology> => {
  const topology = new Namespaces(sandbox, run)
  for (const name of [clientName, ...podNames]) await topology.add(name, false)
  return topology
}

class Namespaces implements Topology {
  readonly kind = 'namespaces'
  readonly client = placeIn(clientName)
  readonly pods = podNames.map(placeIn)
  readonly #sandbox: Sandbox
  readonly #run: RunTool
  readonly #names: string[] = []
  readonly #unset = new Set<string>()
  #lanes = 0
  /** One is made after the other. */
  #last: Promise<unknown> = Promise.resolve()

  constructor(sandbox: Sandbox, run: RunTool) {
    this.#sandbox = sandbox
    this.#run = run
  }

  get description(): string {
    const how = this.#sandbox.kind === 'user' ? ', made without root' : ''
    const unset = [...this.#unset]
    return (
      `network namespaces of one host${how}: a client and ${podNames.length} backend pods, ` +
      'and for each target a node of its own, joined by veth pairs; ' +
      `in all of them ${sysctlWords}` +
      (unset.length === 0 ? '' : `, except what can't be set here: ${unset.join(', ')}`)
    )
  }

  /** A namespace with its sysctls. */
  async add(name: string, isNode: boolean): Promise<void> {
    await this.#run('ip', ['netns', 'add', name])
    this.#names.push(name)
    const unset = await setSysctls(this.#run, name, isNode)
    for (const sysctl of unset) this.#unset.add(sysctl)
    await this.#batch(name, ['link set lo up'])
  }

  lane(): Promise<Lane> {
    const made = this.#last.then(() => this.#makeLane())
    this.#last = made.catch(() => undefined)
    return made
  }

  async #makeLane(): Promise<Lane> {
    const plan = planLane((this.#lanes += 1), podNames.length)
    await this.add(plan.name, true)
    await Promise.all([
      this.#batch(clientName, clientLines(plan)),
      ...podNames.map((pod, index) => this.#batch(pod, podLines(plan, pod, index))),
    ])
    await this.#batch(plan.name, nodeLines(plan, podNames))
    const lane = laneOf(plan)
    await this.#check(lane)
    return lane
  }

  /** From inside of the namespace, so that no link is ever in another than the two. */
  async #batch(namespace: string, lines: readonly string[]): Promise<void> {
    const input = `${lines.join('\n')}\n`
    await this.#run('ip', ['-n', namespace, '-batch', '-'], { input })
  }

  async #check({ nodeAddress, podAddresses }: Lane): Promise<void> {
    const lost = await unreachable(this.client, [nodeAddress, ...podAddresses])
    if (lost.length > 0)
      throw new Error(`the client's packets do not come through to ${lost.join(', ')}`)
  }

  /** A process that still runs in one keeps it; the end of the sandbox ends both. */
  async close(): Promise<void> {
    await this.#last
    const lines = this.#names.splice(0).map(name => `netns del ${name}\n`)
    await this.#run('ip', ['-batch', '-'], { input: lines.join('') })
  }
}

const placeIn = (name: string): Place => ({
  enter: ['ip', 'netns', 'exec', name],
  // They serve clients of all lanes.
  listenAddress: '0.0.0.0',
})

const laneOf = ({ name, client, pods, clusterIp, clusterCidr }: LanePlan): Lane => ({
  ...placeIn(name),
  listenAddress: client.node,
  nodeAddress: client.node,
  podAddresses: pods.map(({ neighbour }) => neighbour),
  clusterIp,
  clusterCidr,
})
