import { createHash } from 'node:crypto'
import type { ServicePort, Snapshot } from '../../src/model/snapshot.ts'
import type { KernelSync, Proxier } from '../../src/kernel/proxier.ts'
import { type RunTool, ToolError } from '../../src/kernel/run-tool.ts'

const table = 'ip kube-proxy'

const vip = 'ip daddr . meta l4proto . th dport'
const nodePort = 'fib daddr type local ip daddr != 127.0.0.0/8 meta l4proto . th dport'

/** All that is there whatever Services there are. */
const fixed = `add table ${table}
flush table ${table}
table ${table} {
  map service-ips { type ipv4_addr . inet_proto . inet_service : verdict; }
  map service-nodeports { type inet_proto . inet_service : verdict; }
  map no-endpoint-services { type ipv4_addr . inet_proto . inet_service : verdict; }
  map no-endpoint-nodeports { type inet_proto . inet_service : verdict; }
  map firewall-ips { type ipv4_addr . inet_proto . inet_service : verdict; }
  set cluster-ips { type ipv4_addr; }
  set hairpin-connections { type ipv4_addr . ipv4_addr . inet_proto . inet_service; }
  chain mark-for-masquerade { meta mark set meta mark or 0x4000; }
  chain masquerading {
    meta mark & 0x4000 != 0 meta mark set meta mark ^ 0x4000 masquerade fully-random
    ct status & dnat != 0 ip saddr . ip daddr . meta l4proto . th dport @hairpin-connections masquerade fully-random
  }
  chain reject-chain { reject; }
  chain firewall-check { ${vip} vmap @firewall-ips; }
  chain service-endpoints-check { ${vip} vmap @no-endpoint-services; }
  chain nodeport-endpoints-check { ${nodePort} vmap @no-endpoint-nodeports; }
  chain cluster-ips-check { ip daddr @cluster-ips reject; ip daddr 10.96.0.0/12 drop; }
  chain services { ${vip} vmap @service-ips; ${nodePort} vmap @service-nodeports; }
  chain filter-prerouting-pre-dnat {
    type filter hook prerouting priority -110
    ct state new jump firewall-check
  }
  chain filter-output-pre-dnat {
    type filter hook output priority -110
    ct state new jump firewall-check
  }
  chain nat-prerouting { type nat hook prerouting priority -100; jump services; }
  chain nat-output { type nat hook output priority -100; jump services; }
  chain nat-postrouting { type nat hook postrouting priority 100; jump masquerading; }
  chain filter-input {
    type filter hook input priority 0
    ct state new jump nodeport-endpoints-check
    ct state new jump service-endpoints-check
  }
  chain filter-forward {
    type filter hook forward priority 0
    ct state new jump service-endpoints-check
    ct state new jump cluster-ips-check
  }
  chain filter-output {
    type filter hook output priority 0
    ct state new jump service-endpoints-check
    ct state new jump cluster-ips-check
  }
}
`

/** What the bench's Services have elements in, and each as `SET KEY`. */
const filled = { 'map service-ips': 'service-ips', 'set cluster-ips': 'cluster-ips' }
type Elements = Map<string, string>

const serviceChain = /^service-[0-9A-F]{8}-/

/** A chain is not deleted before nothing has led to it for so many milliseconds. */
const staleMs = 1000

/** 20,000 Services take minutes. */
const timeoutMs = 600_000

/**
 * What kube-proxy's nftables mode writes for the bench's Services (of ClusterIPs, with endpoints on
 * other nodes), as of Kubernetes 1.36: for each Service a chain with a map of its own. Each sync
 * begins by listing the table without its elements, for chains that are to go.
 */
export class KubeProxyLayout implements Proxier {
  readonly #run: RunTool
  readonly #chains = new Map<string, string>()
  readonly #stale = new Map<string, number>()
  #served: ReadonlyMap<string, ServicePort> = new Map()
  /** Undefined when it is not known what is there. */
  #elements: Elements | undefined

  constructor(run: RunTool) {
    this.#run = run
  }

  async sync({ servicePorts }: Snapshot): Promise<KernelSync> {
    const there = await this.#chainsThere()
    const isFull = this.#elements === undefined
    const before = this.#elements ?? (await this.#elementsThere())
    const served = isFull ? new Map<string, ServicePort>() : this.#served
    this.#elements = undefined
    const lines: string[] = []
    const [wanted, active]: [Elements, Set<string>] = [new Map(), new Set()]
    for (const [key, servicePort] of servicePorts) {
      const chain = this.#chainOf(servicePort)
      active.add(chain)
      addElements(wanted, servicePort, chain)
      if (served.get(key) !== servicePort) lines.push(chainText(chain, servicePort))
    }
    lines.push(...changes(before, wanted), ...this.#staleTexts(there, active))
    if (isFull || lines.length > 0) {
      const input = `${isFull ? fixed : ''}${lines.join('')}`
      await this.#run('nft', ['-f', '-'], { input, timeoutMs })
    }
    this.#elements = wanted
    this.#served = servicePorts
    return { work: isFull ? 'full' : lines.length > 0 ? 'partial' : 'nothing' }
  }

  forget(): void {
    this.#elements = undefined
  }

  problems = () => []

  /** It writes all anew each hour instead. */
  watch = () => () => {}

  close = () => {}

  #chainOf({ key, namespace, serviceName, portName }: ServicePort): string {
    let chain = this.#chains.get(key)
    if (chain === undefined) {
      const hash = createHash('sha256')
        .update(key)
        .digest('hex')
        .slice(0, 8)
        .toUpperCase()
      chain = `service-${hash}-${namespace}/${serviceName}/tcp/${portName}`
      this.#chains.set(key, chain)
    }
    return chain
  }

  /** Emptied when nothing leads to them any more, and taken out by a later sync. */
  #staleTexts(there: readonly string[], active: ReadonlySet<string>): readonly string[] {
    const now = Date.now()
    return there.flatMap(chain => {
      if (!serviceChain.test(chain) || active.has(chain)) {
        this.#stale.delete(chain)
        return []
      }
      const since = this.#stale.get(chain)
      if (since === undefined) this.#stale.set(chain, now)
      if (since === undefined) return [`flush chain ${table} ${chain}\n`]
      return now - since < staleMs ? [] : [`delete chain ${table} ${chain}\n`]
    })
  }

  async #chainsThere(): Promise<readonly string[]> {
    const listed = await this.#list('-j', '-t', 'list', 'table', ...table.split(' '))
    return listed.flatMap(({ chain }) => (chain === undefined ? [] : [chain.name]))
  }

  async #elementsThere(): Promise<Elements> {
    const elements: Elements = new Map()
    for (const [what, set] of Object.entries(filled)) {
      const listed = await this.#list(
        '-j',
        'list',
        ...what.replace(' ', ` ${table} `).split(' '),
      )
      const { elem = [] } = listed.map(one => one.map ?? one.set).find(Boolean) ?? {}
      for (const one of elem) {
        const [key, verdict] = Array.isArray(one) ? one : [one, undefined]
        const text = typeof key === 'string' ? key : key.concat.join(' . ')
        elements.set(
          `${set} ${text}`,
          verdict === undefined ? '' : `goto ${verdict.goto.target}`,
        )
      }
    }
    return elements
  }

  /** Nothing where there is no table yet. */
  async #list(...args: readonly string[]): Promise<readonly Listed[]> {
    try {
      const text = await this.#run('nft', args, { timeoutMs })
      return (JSON.parse(text) as { readonly nftables: readonly Listed[] }).nftables
    } catch (error) {
      if (error instanceof ToolError && /No such file/.test(error.stderr)) return []
      throw error
    }
  }
}

/** Of what `nft -j list` says. */
interface Listed {
  readonly chain?: { readonly name: string }
  readonly map?: { readonly elem?: readonly ListedElement[] }
  readonly set?: { readonly elem?: readonly ListedElement[] }
}
type ListedKey = string | { readonly concat: readonly (string | number)[] }
type ListedElement =
  ListedKey | readonly [ListedKey, { readonly goto: { readonly target: string } }]

const addElements = (elements: Elements, { vips }: ServicePort, chain: string): void => {
  for (const { address, port } of vips) {
    elements.set(`service-ips ${address} . tcp . ${port}`, `goto ${chain}`)
    elements.set(`cluster-ips ${address}`, '')
  }
}

const chainText = (chain: string, { vips, endpoints }: ServicePort): string => {
  const slots = endpoints.map(({ address, port }, at) => `${at} : ${address} . ${port}`)
  const masqueraded = vips.map(
    ({ address, port }) =>
      `add rule ${table} ${chain} ip daddr ${address} tcp dport ${port} ip saddr != 10.244.0.0/16 jump mark-for-masquerade\n`,
  )
  return `add chain ${table} ${chain}
flush chain ${table} ${chain}
${masqueraded.join('')}add rule ${table} ${chain} meta l4proto tcp dnat ip addr . port to numgen random mod ${endpoints.length} map { ${slots.join(', ')} }
`
}

/** A command for each element. */
const changes = (before: Elements, wanted: Elements): readonly string[] => {
  const gone = [...before].flatMap(([id, value]) =>
    wanted.get(id) === value ? [] : [command('delete', id)],
  )
  const come = [...wanted].flatMap(([id, value]) =>
    before.get(id) === value ? [] : [command('add', id, value)],
  )
  return [...gone, ...come]
}

const command = (verb: string, id: string, value = ''): string => {
  const [set = '', ...key] = id.split(' ')
  const element = value === '' ? key.join(' ') : `${key.join(' ')} : ${value}`
  return `${verb} element ${table} ${set} { ${element} }\n`
}
