import type { Endpoint, ServicePort, Target } from '../../../src/model/snapshot.ts'
import type { IpFamily } from '../../../src/util/ip.ts'
import type { Form } from '../../../src/kernel/nftables/compile.ts'
import { proxyAddressOf } from '../../../src/kernel/proxy-address.ts'
import type { Situation } from './situations.ts'

/**
 * A second judge: what a table must do, written down as one text, without a thought of what is
 * there, and with a chain for each way that a client may take.
 */
export const modelText = (
  table: string,
  servicePorts: Iterable<ServicePort>,
  family: IpFamily,
  form: Form,
  situation: Situation,
): string => {
  const model = new Model(family, form, situation)
  for (const servicePort of servicePorts) model.add(servicePort)
  return model.text(table)
}

type Chains = Map<string, string[]>

const numbers = { TCP: 6, UDP: 17, SCTP: 132 } as const

class Model {
  readonly #ip: 'ip' | 'ip6'
  readonly #type: string
  readonly #form: Form
  readonly #situation: Situation
  readonly #elements = new Map<string, Set<string>>()
  readonly #chains: Chains = new Map()
  readonly #affinity = new Map<string, string>()
  readonly #mark: string

  constructor(family: IpFamily, form: Form, situation: Situation) {
    this.#ip = family === 'IPv4' ? 'ip' : 'ip6'
    this.#type = family === 'IPv4' ? 'ipv4_addr' : 'ipv6_addr'
    this.#form = form
    this.#situation = situation
    this.#mark = `meta mark set meta mark or ${situation.bit}`
  }

  add(servicePort: ServicePort): void {
    const { vips, externalTrafficPolicy, protocol, steeredTo } = servicePort
    for (const [i, { kind, address, port }] of vips.entries()) {
      const number = numbers[protocol]
      const isNodePort = kind === 'NodePort' && ['0.0.0.0', '::'].includes(address)
      const key = isNodePort ? `${number} . ${port}` : `${address} . ${number} . ${port}`
      const names = isNodePort
        ? ['service-nodeports', 'from-node-nodeports', 'no-endpoint-nodeports']
        : ['service-ips', 'from-node-service-ips', 'no-endpoint-services']
      const [all = '', near = '', none = ''] = names
      const at = isNodePort ? `${port}` : `${address} . ${port}`
      const isInside = kind === 'ClusterIP'
      const target = isInside ? servicePort.internal : servicePort.external
      const isSpared = !isInside && externalTrafficPolicy === 'Local'
      const marks = isInside ? this.#inside() : isSpared ? [] : [this.#mark]
      const relay = steeredTo?.[i]
      if (relay !== undefined) {
        const value = `${key} : ${relay.address} . ${relay.port}`
        const spared = isInside ? target : servicePort.externalFromNode
        if (target.verdict === 'forward') this.#put(`relayed-${all}`, value)
        else if (spared.verdict === 'forward') this.#put(`relayed-${names[1]}`, value)
      } else
        this.#lead(all, key, servicePort, target, { at, isNodePort, first: 0, marks })
      if (isSpared && relay === undefined)
        this.#lead(near, key, servicePort, servicePort.externalFromNode, {
          at,
          isNodePort,
          first: 65_536,
          marks: [`fib saddr type local ${this.#mark}`],
        })
      if (target.verdict === 'reject') this.#put(none, `${key} : goto refuse`)
      if (target.verdict === 'drop') this.#put(none, `${key} : drop`)
      if (isInside) this.#put('cluster-ips', address)
      if (kind === 'LoadBalancerIP') this.#guard(key, servicePort)
    }
    for (const { address, port, nodeName } of servicePort.reachable)
      if (nodeName === '' || nodeName === this.#situation.settings.nodeName)
        this.#put(
          'hairpin-connections',
          `${address} . ${address} . ${numbers[protocol]} . ${port}`,
        )
  }

  #inside(): string[] {
    const { settings, ifNotLocal } = this.#situation
    if (settings.masqueradeAll) return [this.#mark]
    return ifNotLocal === '' ? [] : [`${this.#words(ifNotLocal)} ${this.#mark}`]
  }

  /** Of a text for both families. */
  #words(text: string): string {
    return text.replaceAll('IP ', `${this.#ip} `)
  }

  #put(set: string, element: string): void {
    const elements = this.#elements.get(set) ?? new Set()
    this.#elements.set(set, elements.add(element))
  }

  #chain(rules: string[]): string {
    const name = `m${this.#chains.size}`
    this.#chains.set(name, rules)
    return name
  }

  #guard(key: string, { sourceRanges }: ServicePort): void {
    if (sourceRanges === undefined || sourceRanges.some(range => range.endsWith('/0')))
      return
    const others =
      sourceRanges.length === 0
        ? 'drop'
        : `${this.#ip} saddr != { ${sourceRanges.join(', ')} } drop`
    this.#put('firewall-ips', `${key} : goto ${this.#chain([others])}`)
  }

  #lead(
    set: string,
    key: string,
    servicePort: ServicePort,
    { verdict, endpoints }: Target,
    how: { at: string; isNodePort: boolean; first: number; marks: string[] },
  ): void {
    if (verdict !== 'forward') return
    const { at, isNodePort, first, marks } = how
    const ip = this.#ip
    const n = endpoints.length
    const protocol = servicePort.protocol.toLowerCase()
    const rules = [...marks]
    if (servicePort.affinityMs > 0) {
      const exits = endpoints.map(endpoint => this.#exit(servicePort, endpoint))
      for (const { set: seen, chain } of exits)
        rules.push(`${ip} saddr @${seen} goto ${chain}`)
      const slots = exits.map(({ chain }, i) => `${i} : goto ${chain}`)
      rules.push(`numgen random mod ${n} vmap { ${slots.join(', ')} }`)
    } else if (this.#form === 'own') {
      const slots = endpoints.map(({ address, port }, i) => `${i} : ${address} . ${port}`)
      rules.push(
        `meta l4proto ${numbers[servicePort.protocol]} dnat ${ip} addr . port to numgen random mod ${n} map { ${slots.join(', ')} }`,
      )
    } else {
      const map = `${isNodePort ? 'nodeport-' : ''}endpoints-${protocol}`
      const field = isNodePort ? '' : `${ip} daddr . `
      const offset = first === 0 ? '' : ` offset ${first}`
      rules.push(
        `dnat ${ip} to ${field}${protocol} dport . numgen random mod ${n}${offset} map @${map}`,
      )
      for (const [i, { address, port }] of endpoints.entries())
        this.#put(map, `${at} . ${first + i} : ${address} . ${port}`)
    }
    this.#put(set, `${key} : goto ${this.#chain(rules)}`)
  }

  #exit({ key, affinityMs, protocol }: ServicePort, { address, port }: Endpoint) {
    const ip = this.#ip
    const set = `affinity-${`${key}-${address}-${port}`.replaceAll(/\W/g, '_')}`
    const timeout = `${Math.max(1, Math.ceil(affinityMs / 1000))}s`
    this.#affinity.set(
      set,
      `type ${this.#type}; size 1048576; flags dynamic,timeout; timeout ${timeout};`,
    )
    const to = ip === 'ip' ? `${address}:${port}` : `[${address}]:${port}`
    const chain = this.#chain([
      `update @${set} { ${ip} saddr }`,
      `meta l4proto ${numbers[protocol]} dnat ${ip} to ${to}`,
    ])
    return { set, chain }
  }

  #maps(): [kind: string, name: string, type: string][] {
    const ip = this.#ip
    const vip = `type ${this.#type} . inet_proto . inet_service : verdict`
    const nodePort = 'type inet_proto . inet_service : verdict'
    const relay = `${this.#type} . inet_service`
    const [relayedVip, relayedNodePort] = [vip, nodePort].map(text =>
      text.replace('verdict', relay),
    ) as [string, string]
    const all: [string, string, string][] = [
      ['map', 'relayed-service-ips', relayedVip],
      ['map', 'relayed-from-node-service-ips', relayedVip],
      ['map', 'relayed-service-nodeports', relayedNodePort],
      ['map', 'relayed-from-node-nodeports', relayedNodePort],
      ['map', 'no-endpoint-services', vip],
      ['map', 'firewall-ips', vip],
      ['map', 'no-endpoint-nodeports', nodePort],
      ['set', 'cluster-ips', `type ${this.#type}`],
    ]
    if (this.#isAlone) return all
    all.push(
      ['map', 'service-ips', vip],
      ['map', 'from-node-service-ips', vip],
      ['map', 'service-nodeports', nodePort],
      ['map', 'from-node-nodeports', nodePort],
      [
        'set',
        'hairpin-connections',
        `type ${this.#type} . ${this.#type} . inet_proto . inet_service`,
      ],
    )
    if (this.#form === 'shared')
      for (const p of ['tcp', 'udp', 'sctp']) {
        const rest = `${p} dport . numgen random mod 2 : ${ip} daddr . ${p} dport`
        all.push(['map', `endpoints-${p}`, `typeof ${ip} daddr . ${rest}`])
        all.push(['map', `nodeport-endpoints-${p}`, `typeof ${rest}`])
      }
    return all
  }

  get #isAlone(): boolean {
    return this.#situation.settings.relay?.serves === 'alone'
  }

  /** What leads to the relay, VIPs and node ports: for all, then for who is near. */
  #relayed(near: readonly string[]): [vips: string[], nodePorts: string[]] {
    if (this.#situation.settings.relay === undefined) return [[], []]
    const ip = this.#ip
    const vip = `dnat ${ip} to ${ip} daddr . meta l4proto . th dport map`
    const here = this.#here(proxyAddressOf[ip === 'ip' ? 'IPv4' : 'IPv6'])
    const port = `${here} dnat ${ip} to meta l4proto . th dport map`
    return [
      [
        `${vip} @relayed-service-ips`,
        ...near.map(from => `${from}${vip} @relayed-from-node-service-ips`),
      ],
      [
        `${port} @relayed-service-nodeports`,
        ...near.map(from => `${from}${port} @relayed-from-node-nodeports`),
      ],
    ]
  }

  /** On which addresses node ports are, but for some. */
  #here(not: string): string {
    const { nodePortCidrs } = this.#situation
    const chosen = nodePortCidrs === '' ? '' : ` ${this.#ip} daddr { ${nodePortCidrs} }`
    return `fib daddr type local ${this.#ip} daddr != ${not}${chosen}`
  }

  #base(): [name: string, hook: string, rules: string[]][] {
    const ip = this.#ip
    const { ifLocal, serviceCidrs, bit } = this.#situation
    const { relay } = this.#situation.settings
    const near = ifLocal === '' ? [] : [this.#words(ifLocal)]
    const vip = `${ip} daddr . meta l4proto . th dport`
    const port = 'meta l4proto . th dport'
    const loopback = ip === 'ip' ? '127.0.0.0/8' : '::1'
    const proxy = proxyAddressOf[ip === 'ip' ? 'IPv4' : 'IPv6']
    const here = this.#here(relay ? `{ ${loopback}, ${proxy} }` : loopback)
    const pods = relay?.nodePods.map(cidr => `${ip} saddr { ${cidr} } `) ?? []
    const [inVips, inPorts] = this.#relayed(pods)
    const [outVips, outPorts] = this.#relayed([''])
    if (relay && ip === 'ip') inVips.unshift('ip daddr 127.0.0.0/8 return')
    const firewall = [`ct state new ${vip} vmap @firewall-ips`]
    const unknown = [
      `${vip} vmap @no-endpoint-services`,
      `${ip} daddr @cluster-ips goto refuse`,
      ...(serviceCidrs === '' ? [] : [`${ip} daddr { ${serviceCidrs} } drop`]),
    ]
    this.#chains.set('refuse', ['meta l4proto tcp reject with tcp reset', 'reject'])
    if (this.#isAlone) {
      const [vips = '', ips = ''] = unknown
      const ports = `${this.#here(proxy)} ${port} vmap @no-endpoint-nodeports`
      this.#chains.set('unknown', [vips, ports, `meta l4proto { 6, 17 } ${ips}`])
      const check = ['ct state new jump unknown']
      const filter = (hook: string, at: number) =>
        `type filter hook ${hook} priority ${at}`
      return [
        ['filter-prerouting-pre-dnat', filter('prerouting', -110), firewall],
        ['filter-output-pre-dnat', filter('output', -110), firewall],
        [
          'nat-prerouting',
          'type nat hook prerouting priority -100',
          [...inVips, ...inPorts],
        ],
        ['nat-output', 'type nat hook output priority -100', [...outVips, ...outPorts]],
        ['filter-prerouting', filter('prerouting', -90), check],
        ['filter-output', filter('output', -90), check],
      ]
    }
    this.#chains.set('unknown', unknown)
    this.#chains.set('node-ports-in', [
      ...near.map(from => `${from} ${port} vmap @from-node-nodeports`),
      `${port} vmap @service-nodeports`,
    ])
    this.#chains.set('node-ports-out', [
      `${port} vmap @from-node-nodeports`,
      `${port} vmap @service-nodeports`,
    ])
    const check = ['ct state new jump unknown']
    return [
      [
        'filter-prerouting-pre-dnat',
        'type filter hook prerouting priority -110',
        firewall,
      ],
      ['filter-output-pre-dnat', 'type filter hook output priority -110', firewall],
      [
        'nat-prerouting',
        'type nat hook prerouting priority -99',
        [
          ...near.map(from => `${from} ${vip} vmap @from-node-service-ips`),
          `${vip} vmap @service-ips`,
          ...inVips,
          `${here} jump node-ports-in`,
          ...inPorts,
        ],
      ],
      [
        'nat-output',
        'type nat hook output priority -99',
        [
          `${vip} vmap @from-node-service-ips`,
          `${vip} vmap @service-ips`,
          ...outVips,
          `${here} jump node-ports-out`,
          ...outPorts,
        ],
      ],
      [
        'nat-postrouting',
        'type nat hook postrouting priority 100',
        [
          `meta mark & ${bit} != 0 meta mark set meta mark ^ ${bit} masquerade fully-random`,
          `ct status & dnat != 0 ${ip} saddr . ${ip} daddr . meta l4proto . th dport @hairpin-connections masquerade fully-random`,
        ],
      ],
      [
        'filter-input',
        'type filter hook input priority 0',
        [
          `ct state new ${vip} vmap @no-endpoint-services`,
          `ct state new ${here} ${port} vmap @no-endpoint-nodeports`,
        ],
      ],
      ['filter-forward', 'type filter hook forward priority 0', check],
      ['filter-output', 'type filter hook output priority 0', check],
    ]
  }

  text(table: string): string {
    const base = this.#base()
    const sets = [
      ...this.#maps().map(([kind, name, type]) => {
        const elements = [...(this.#elements.get(name) ?? [])]
        const list = elements.length === 0 ? '' : `elements = { ${elements.join(', ')} };`
        return `${kind} ${name} { ${type}; ${list} }`
      }),
      ...[...this.#affinity].map(([name, type]) => `set ${name} { ${type} }`),
    ]
    const chains = [
      ...[...this.#chains].map(([name, rules]) => [name, '', rules] as const),
      ...base.map(
        ([name, hook, rules]) => [name, `${hook}; policy accept;`, rules] as const,
      ),
    ].map(([name, hook, rules]) => `chain ${name} { ${hook}\n${rules.join('\n')}\n}`)
    // A chain may come after those that lead to it only when it is known by then.
    const known = [...this.#chains.keys()].map(name => `chain ${name} { }`)
    const whole = (parts: string[]) => `table ${table} {\n${parts.join('\n')}\n}\n`
    return `add table ${table}\ndelete table ${table}\n${whole(known)}${whole([...sets, ...chains])}`
  }
}
