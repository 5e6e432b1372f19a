import { setTimeout as sleep } from 'node:timers/promises'
import { type Cluster, kubectl } from './cluster.ts'
import type { Node } from './nodes.ts'
import { output } from './run-command.ts'

interface Service {
  readonly metadata: {
    readonly uid: string
    readonly namespace: string
    readonly name: string
    readonly deletionTimestamp?: string
  }
  readonly spec: {
    readonly type?: string
    readonly loadBalancerClass?: string
    readonly loadBalancerIP?: string
    readonly healthCheckNodePort?: number
    readonly sessionAffinity?: string
  }
  readonly status?: {
    readonly loadBalancer?: { readonly ingress?: readonly { readonly ip?: string }[] }
  }
}

const network = '10.199.1.0/24'
/** From which clients come: specs want one that is in no network of the nodes'. */
const client = '10.198.0.1'
const addresses = Array.from({ length: 240 }, (_, i) => `10.199.1.${10 + i}`)
const lookEveryMs = 500

/**
 * In a cloud's place: Services of type LoadBalancer get an address, and a route to the nodes, of those with a
 * healthCheckNodePort to the ones that answer 200 there. Packets arrive with the address as it is (KEP-1860,
 * ipMode VIP). Until the returned function is called.
 */
export const startLoadBalancer = async (
  cluster: Cluster,
  nodes: readonly Node[],
): Promise<() => Promise<void>> => {
  for (const line of [
    'sysctl -qw net.ipv4.fib_multipath_hash_policy=1',
    `ip addr add ${client}/32 dev lo`,
    // An address that no Service has any more is silent: specs of UDP take an error for an answer.
    'ip link add lb-none type veth peer name lb-none-end',
    'ip link set lb-none-end up',
    'ip link set lb-none arp off up',
    `ip route replace ${network} dev lb-none src ${client}`,
  ])
    await output(line.split(' '))
  const balancer = new LoadBalancer(cluster, nodes)
  const stop = new AbortController()
  const looking = (async () => {
    while (!stop.signal.aborted) {
      await balancer.look().catch((error: unknown) => {
        process.stderr.write(`load balancer: ${(error as Error).message}\n`)
      })
      await sleep(lookEveryMs)
    }
  })()
  return async () => {
    stop.abort()
    await looking
  }
}

class LoadBalancer {
  readonly #cluster: Cluster
  readonly #nodes: readonly Node[]
  /** Addresses, by the Service's UID. */
  readonly #given = new Map<string, string>()
  /** The commands that made the routes, by address. */
  #routes: ReadonlyMap<string, string> = new Map()

  constructor(cluster: Cluster, nodes: readonly Node[]) {
    this.#cluster = cluster
    this.#nodes = nodes
  }

  async look(): Promise<void> {
    const text = await kubectl(this.#cluster, 'get', 'services', '-A', '-o', 'json')
    const { items } = JSON.parse(text) as { readonly items: readonly Service[] }
    const uids = new Set(items.map(({ metadata }) => metadata.uid))
    for (const uid of this.#given.keys()) if (!uids.has(uid)) this.#given.delete(uid)
    const wanted = new Map<string, string>()
    for (const service of items.filter(isOurs)) {
      const address = await this.#addressOf(service)
      const vias = (await this.#healthy(service)).map(({ ipv4 }) => `nexthop via ${ipv4}`)
      if (vias.length > 0) wanted.set(address, vias.join(' '))
    }
    for (const [address, vias] of wanted)
      if (this.#routes.get(address) !== vias)
        await output(`ip route replace ${address}/32 src ${client} ${vias}`.split(' '))
    for (const address of this.#routes.keys())
      if (!wanted.has(address)) await output(`ip route del ${address}/32`.split(' '))
    this.#routes = wanted
  }

  async #addressOf({ metadata, spec, status }: Service): Promise<string> {
    const { uid, namespace, name } = metadata
    const taken = new Set(this.#given.values())
    const free = addresses.find(one => !taken.has(one))
    const address = spec.loadBalancerIP || this.#given.get(uid) || free
    if (address === undefined) throw new Error('no address is left')
    this.#given.set(uid, address)
    const ingress = [{ ip: address, ipMode: 'VIP' }]
    if (status?.loadBalancer?.ingress?.[0]?.ip !== address) {
      const patch = JSON.stringify({ status: { loadBalancer: { ingress } } })
      const flags = ['--subresource=status', '--type=merge', '-p', patch]
      await kubectl(this.#cluster, '-n', namespace, 'patch', 'service', name, ...flags)
    }
    return address
  }

  /** One of them for a Service that wants all of a client at one place. */
  async #healthy({ spec }: Service): Promise<readonly Node[]> {
    const port = spec.healthCheckNodePort
    const answers = await Promise.all(
      this.#nodes.map(async ({ ipv4 }) => port === undefined || isHealthy(ipv4, port)),
    )
    const healthy = this.#nodes.filter((_, i) => answers[i])
    return spec.sessionAffinity === 'ClientIP' ? healthy.slice(0, 1) : healthy
  }
}

const isOurs = ({ metadata, spec }: Service): boolean =>
  spec.type === 'LoadBalancer' &&
  spec.loadBalancerClass === undefined &&
  metadata.deletionTimestamp === undefined

const isHealthy = (address: string, port: number): Promise<boolean> =>
  fetch(`http://${address}:${port}/`, { signal: AbortSignal.timeout(500) }).then(
    ({ status }) => status === 200,
    () => false,
  )
