import { listOfServicePorts } from '../../model/service-port-list.ts'
import type { Problem, ServicePort, Snapshot, Vip } from '../../model/snapshot.ts'
import type { Clock } from '../../util/clock.ts'
import type { IpFamily } from '../../util/ip.ts'
import { Installed } from '../keeper/installed.ts'
import type { Monitor } from '../nft/monitor.ts'
import { elementTexts } from '../nft/element-texts.ts'
import { OwnTable } from '../nft/own-table.ts'
import { type ChainPart, type Named, partsTexts, removeText } from '../nft/parts.ts'
import { listTables, afterIptables, amongIptables, probeTable } from '../nft/tables.ts'
import { watchTable } from '../nft/table-watch.ts'
import { WantedTable } from '../nft/wanted-table.ts'
import {
  type KernelSettings,
  type KernelSync,
  type InspectCommand,
  type Proxier,
  type ProxierObserver,
  boundClients,
} from '../proxier.ts'
import { type RunTool, ToolError } from '../run-tool.ts'
import {
  compile,
  type Context,
  type Form,
  makeContext,
  settingsText,
  affinitySetOf,
  isPickChain,
} from './compile.ts'
import { shortHash } from '../../util/short-hash.ts'
import { isClientsChain } from '../nft/clients.ts'

export interface NftablesProxierDeps {
  readonly run: RunTool
  readonly clock: Clock
  readonly observer: ProxierObserver
  readonly monitor: Monitor
  /** As in `ip usher-services`. */
  readonly table: string
  /** The one that a probe has found to work. */
  readonly form: () => Form
}

interface Written {
  readonly settings: string
  readonly context: Context
  readonly wanted: WantedTable
  readonly did: KernelSync
}

/**
 * Of one IP family, in a table of its own. A full sync writes all without asking what elements
 * there are: it empties the maps and fills them in one transaction. What packets have put into
 * sets (ClientIP affinity) stays.
 */
export class NftablesProxier implements Proxier {
  readonly #deps: NftablesProxierDeps
  readonly #family: IpFamily
  readonly #table: OwnTable
  readonly #written = new Installed<Written>()
  #isClosed = false
  /** Whether the table is to be made anew, for what is in it is not known. */
  #isStrange = false
  /** '' where there is one, or none is asked for. */
  #flowtableProblem = ''

  constructor(family: IpFamily, deps: NftablesProxierDeps) {
    this.#family = family
    this.#deps = deps
    this.#table = new OwnTable(deps.run, deps.table)
  }

  async sync(snapshot: Snapshot, settings: KernelSettings): Promise<KernelSync> {
    const text = settingsText(settings)
    const { did } = await this.#written.write(known =>
      known?.settings === text
        ? this.#partial(snapshot, known)
        : this.#full(snapshot, settings),
    )
    return did
  }

  forget(): void {
    this.#written.forget()
  }

  /** All Services there are can be written. */
  problems(): readonly Problem[] {
    const message = this.#flowtableProblem
    return message === '' ? [] : [noFlowtable(this.#family, message)]
  }

  watch(damaged: (what: string) => void): () => void {
    const { run, clock, monitor, observer } = this.#deps
    return watchTable(this.#table, {
      run,
      clock,
      monitor,
      wanted: () => true,
      damaged,
      onBlind: reason => observer.failed(`watching table ${this.#table.name}`, reason),
    })
  }

  inspectCommands(servicePort: ServicePort, vip: Vip): readonly InspectCommand[] {
    const { context } = this.#written.value ?? {}
    return context ? nftablesCommands(this.#table.name, servicePort, vip, context) : []
  }

  close(): void {
    this.#isClosed = true
  }

  async #partial(snapshot: Snapshot, written: Written): Promise<Written> {
    const { wanted } = written
    const all = listOfServicePorts(snapshot)
    const { parts, elements, idle } = await wanted.take(all, this.#deps.clock.now())
    const texts = await elementTexts(this.#table.name, elements)
    if (parts.length + texts.length === 0) return { ...written, did: { work: 'nothing' } }
    const gone = idle()
    const isElementsOnly = parts.length === 0 && gone === ''
    try {
      await this.#write('partial', () =>
        this.#table.write([...parts, ...texts, gone], { elements, isElementsOnly }),
      )
    } catch (error) {
      // What was to go may be gone, and would be missed each time.
      this.#isStrange = gone !== '' && isRefused(error)
      throw error
    }
    return { ...written, did: { work: 'partial' } }
  }

  async #full(snapshot: Snapshot, settings: KernelSettings): Promise<Written> {
    const { run, clock, form } = this.#deps
    const table = this.#table.name
    const flowtableDevices = await this.#flowtableDevices(settings)
    const context = makeContext(this.#family, form(), { ...settings, flowtableDevices })
    const sets = tableText(table, context)
    const fixed = [layoutChain(sets), ...fixedChains(context)]
    const write = async (head: string, there?: PartsThere): Promise<Written> => {
      const { found = [], foreign = [] } = there ?? {}
      const wanted = new WantedTable(table, one => compile(one, context))
      for (const { kind, name } of found) wanted.found(kind, name, clock.now())
      const all = listOfServicePorts(snapshot)
      const { parts, elements } = await wanted.take(all, clock.now())
      const rest = [...partsTexts(table, fixed), ...parts]
      const others = `${wanted.emptied()}${removeText(table, foreign)}`
      const texts = [head, ...rest, others, ...(await elementTexts(table, elements))]
      const effect = { elements, isWhole: true, hidesSets: there !== undefined }
      await this.#write('full', () => this.#table.write(texts, effect))
      this.#isStrange = false
      return { settings: settingsText(settings), context, wanted, did: { work: 'full' } }
    }
    const anew = `add table ${table}\ndelete table ${table}\n${sets}`
    const chains = (await listTables(run, this.#family)).get(table) ?? []
    if (this.#isStrange || !chains.includes(layoutChain(sets).name)) return write(anew)
    try {
      return await write(`${sets}${emptyText(table, context)}`, partsThere(chains, fixed))
    } catch (error) {
      // Another program has put in its own.
      if (!isRefused(error)) throw error
      return write(anew)
    }
  }

  /** None where the kernel or a device is not there: Services are served all the same. */
  async #flowtableDevices({
    flowtableDevices,
  }: KernelSettings): Promise<readonly string[]> {
    this.#flowtableProblem = ''
    if (flowtableDevices.length === 0) return []
    const { run } = this.#deps
    this.#flowtableProblem = await flowtableProblem(run, this.#family, flowtableDevices)
    return this.#flowtableProblem === '' ? flowtableDevices : []
  }

  async #write(work: 'partial' | 'full', write: () => Promise<void>): Promise<void> {
    // What was under way while it closed: another mode may have its rules there by now.
    if (this.#isClosed) throw new Error('nftables mode has ended')
    try {
      await write()
    } catch (error) {
      this.#deps.observer.restoreFailed(this.#family, work)
      throw error
    }
  }
}

const isRefused = (error: unknown): boolean =>
  error instanceof ToolError && error.failure === 'failed'

/** The table with its sets and maps, those that are there as they are. */
const tableText = (table: string, context: Context): string => {
  const sets = Object.entries(setDefinitions(context)).map(
    ([name, [kind, definition]]) => `add ${kind} ${table} ${name} { ${definition} }\n`,
  )
  const { flowtableDevices: devices } = context
  const flows = devices.length === 0 ? '' : flowtableText(table, devices)
  return `add table ${table}\n${sets.join('')}${flows}`
}

const emptyText = (table: string, context: Context): string =>
  Object.entries(setDefinitions(context))
    .map(([name, [kind]]) => `flush ${kind} ${table} ${name}\n`)
    .join('')

/**
 * An empty chain that says by its name which sets, maps and flowtable the table was made with:
 * chains are all that nft lists without reading the elements of sets.
 */
export const layoutChain = (definitions: string): ChainPart => {
  return { kind: 'chain', name: `layout-${shortHash(definitions)}`, rules: [] }
}

interface PartsThere {
  /** Left for Services by a process before. */
  readonly found: readonly Named[]
  /** Chains of others: one with a hook judges packets whatever leads to it. */
  readonly foreign: readonly Named[]
}

/** What is there besides `fixed`, by the names of chains. */
export const partsThere = (
  chains: readonly string[],
  fixed: readonly ChainPart[],
): PartsThere => {
  const names = new Set(fixed.map(({ name }) => name))
  const others = chains.filter(name => !names.has(name))
  return {
    found: others.filter(isOwn).flatMap((name): readonly Named[] => {
      const set = affinitySetOf(name)
      return set === undefined
        ? [chainOf(name)]
        : [chainOf(name), { kind: 'set', name: set }]
    }),
    foreign: others.filter(name => !isOwn(name)).map(chainOf),
  }
}

const isOwn = (name: string): boolean => isPickChain(name) || isClientsChain(name)

const chainOf = (name: string): Named => ({ kind: 'chain', name })

type SetDefinition = readonly [kind: 'map' | 'set', text: string]

/**
 * The sets and maps that are the same whatever Services there are, by name. Names are
 * kube-proxy's where they mean the same.
 */
const setDefinitions = ({
  keywords,
  form,
  relay,
}: Context): Readonly<Record<string, SetDefinition>> => {
  const { family: ip, addressType: address } = keywords
  const vip = `${address} . inet_proto . inet_service`
  const nodePort = 'inet_proto . inet_service'
  const relayAt = `${address} . inet_service`
  const ofEndpoints: Readonly<Record<string, SetDefinition>> = {
    'service-ips': ['map', `type ${vip} : verdict;`],
    'from-node-service-ips': ['map', `type ${vip} : verdict;`],
    'service-nodeports': ['map', `type ${nodePort} : verdict;`],
    'from-node-nodeports': ['map', `type ${nodePort} : verdict;`],
    ...(form === 'shared' && Object.fromEntries(endpointMaps(ip))),
    'hairpin-connections': [
      'set',
      `type ${address} . ${address} . inet_proto . inet_service;`,
    ],
  }
  return {
    ...(relay?.isAlone !== true && ofEndpoints),
    // Also while nothing is steered: a table that is made from scratch forgets who was bound by affinity.
    'relayed-service-ips': ['map', `type ${vip} : ${relayAt};`],
    'relayed-from-node-service-ips': ['map', `type ${vip} : ${relayAt};`],
    'relayed-service-nodeports': ['map', `type ${nodePort} : ${relayAt};`],
    'relayed-from-node-nodeports': ['map', `type ${nodePort} : ${relayAt};`],
    'no-endpoint-services': ['map', `type ${vip} : verdict;`],
    'no-endpoint-nodeports': ['map', `type ${nodePort} : verdict;`],
    'firewall-ips': ['map', `type ${vip} : verdict;`],
    'cluster-ips': ['set', `type ${address};`],
    stamp: ['set', 'type mark;'],
  }
}

/**
 * One for each protocol: a `typeof` that has no protocol of its own (`th dport`) is accepted, but
 * nft 1.0.6 then takes the first rule for one of TCP, and refuses those that come later.
 */
const endpointMaps = (
  ip: string,
): readonly (readonly [name: string, definition: SetDefinition])[] =>
  (['tcp', 'udp', 'sctp'] as const).flatMap(protocol => {
    const key = `${protocol} dport . numgen random mod 2`
    const value = `${ip} daddr . ${protocol} dport`
    return [
      [`endpoints-${protocol}`, ['map', `typeof ${ip} daddr . ${key} : ${value};`]],
      [`nodeport-endpoints-${protocol}`, ['map', `typeof ${key} : ${value};`]],
    ] as const
  })

const base = (
  name: string,
  hook: string,
  priority: number,
  rules: readonly string[],
): ChainPart => {
  const type = hook.startsWith('nat ') ? hook : `filter hook ${hook}`
  return {
    kind: 'chain',
    name,
    hook: `type ${type} priority ${priority}; policy accept;`,
    rules,
  }
}

/**
 * The chains that are the same whatever Services there are. A packet of a connection that stands
 * meets one comparison in each chain of filters, and none of nat; a new one is looked up in hash
 * tables. Those of -110 are before nat, and see the VIP itself; those of -90 and 0 see what nat has
 * not led on.
 */
const fixedChains = (context: Context): readonly ChainPart[] => [
  ...natChains(context),
  ...filterChains(context),
]

const natChains = (context: Context): readonly ChainPart[] => {
  const { keywords, vip, nodePort, toNode, ifLocal, bit, relay } = context
  const { family: ip } = keywords
  const relayed = relayedRules(context)
  if (relay?.isAlone === true)
    return [
      base('nat-prerouting', 'nat hook prerouting', amongIptables, [
        ...relayed.prerouting.vips,
        ...relayed.prerouting.nodePorts,
      ]),
      base('nat-output', 'nat hook output', amongIptables, [
        ...relayed.output.vips,
        ...relayed.output.nodePorts,
      ]),
    ]
  const nodePorts = `${nodePort} vmap @service-nodeports`
  const fromNode = `${nodePort} vmap @from-node-nodeports`
  return [
    {
      kind: 'chain',
      name: 'node-ports',
      rules: [...ifLocal.map(pods => `${pods} ${fromNode}`), nodePorts],
    },
    { kind: 'chain', name: 'node-ports-from-node', rules: [fromNode, nodePorts] },
    base('nat-prerouting', 'nat hook prerouting', afterIptables, [
      ...ifLocal.map(pods => `${pods} ${vip} vmap @from-node-service-ips`),
      `${vip} vmap @service-ips`,
      ...relayed.prerouting.vips,
      `${toNode} jump node-ports`,
      ...relayed.prerouting.nodePorts,
    ]),
    base('nat-output', 'nat hook output', afterIptables, [
      `${vip} vmap @from-node-service-ips`,
      `${vip} vmap @service-ips`,
      ...relayed.output.vips,
      `${toNode} jump node-ports-from-node`,
      ...relayed.output.nodePorts,
    ]),
    base('nat-postrouting', 'nat hook postrouting', 100, [
      // A packet may come through the stack again, and is not masqueraded twice.
      `meta mark & ${bit} != 0 meta mark set meta mark ^ ${bit} masquerade fully-random`,
      `ct status & dnat != 0 ${ip} saddr . ${ip} daddr . meta l4proto . th dport @hairpin-connections masquerade fully-random`,
    ]),
  ]
}

/** In which hook they are says whose they are: of the node's own clients all are spared. */
const relayedRules = ({
  keywords,
  vip,
  nodePort,
  toRelayingNode,
  relay,
  family,
}: Context) => {
  const none = { vips: [], nodePorts: [] }
  if (relay === undefined) return { prerouting: none, output: none }
  const dnat = `dnat ${keywords.family} to`
  const vips = `${dnat} ${vip} map @relayed-service-ips`
  const vipsFromNode = `${dnat} ${vip} map @relayed-from-node-service-ips`
  const nodePorts = `${toRelayingNode} ${dnat} ${nodePort} map @relayed-service-nodeports`
  const fromNode = `${toRelayingNode} ${dnat} ${nodePort} map @relayed-from-node-nodeports`
  const spared = (rule: string): readonly string[] =>
    relay.ifSpared.map(pods => `${pods} ${rule}`)
  return {
    prerouting: {
      // Led elsewhere by then, what a neighbour sends there would not be seen for the martian it is
      // (RFC 1122, 3.2.1.3).
      vips: [
        ...(family === 'IPv4' ? ['ip daddr 127.0.0.0/8 return'] : []),
        vips,
        ...spared(vipsFromNode),
      ],
      nodePorts: [nodePorts, ...spared(fromNode)],
    },
    output: { vips: [vips, vipsFromNode], nodePorts: [nodePorts, fromNode] },
  }
}

const filterChains = (context: Context): readonly ChainPart[] => {
  const { keywords, vip, serviceCidrs, relay } = context
  const { family: ip } = keywords
  const isAlone = relay?.isAlone === true
  const firewall = [`ct state new ${vip} vmap @firewall-ips`]
  const unused =
    serviceCidrs.length === 0 ? [] : [`${ip} daddr { ${serviceCidrs.join(', ')} } drop`]
  // What the relay does not carry is not for it to refuse.
  const ofClusterIps = `${isAlone ? 'meta l4proto { 6, 17 } ' : ''}${ip} daddr @cluster-ips goto refuse`
  return [
    // By a reset, as the kernel limits how many it says by ICMP (net.ipv4.icmp_ratelimit).
    {
      kind: 'chain',
      name: 'refuse',
      rules: ['meta l4proto 6 reject with tcp reset', 'reject'],
    },
    {
      kind: 'chain',
      name: 'cluster-ips-check',
      rules: [
        `${vip} vmap @no-endpoint-services`,
        ...(isAlone ? [unservedNodePorts(context)] : []),
        ofClusterIps,
        ...unused,
      ],
    },
    base('filter-prerouting-pre-dnat', 'prerouting', -110, firewall),
    base('filter-output-pre-dnat', 'output', -110, firewall),
    ...(isAlone ? onArrival() : onTheWay(context)),
  ]
}

const unservedNodePorts = ({ relay, toNode, toRelayingNode, nodePort }: Context) =>
  `${relay?.isAlone ? toRelayingNode : toNode} ${nodePort} vmap @no-endpoint-nodeports`

/**
 * After nat, also of the host's own. The relay needs no forwarding, nor a route to VIPs: who is
 * refused needs neither, too.
 */
const onArrival = (): readonly ChainPart[] =>
  (['prerouting', 'output'] as const).map(hook =>
    base(`filter-${hook}`, hook, -90, ['ct state new jump cluster-ips-check']),
  )

const onTheWay = (context: Context): readonly ChainPart[] => {
  const { vip, flowtableDevices } = context
  return [
    base('filter-input', 'input', 0, [
      `ct state new ${vip} vmap @no-endpoint-services`,
      `ct state new ${unservedNodePorts(context)}`,
    ]),
    base('filter-forward', 'forward', 0, [
      'ct state new jump cluster-ips-check',
      ...(flowtableDevices.length > 0 ? [flowRule] : []),
    ]),
    base('filter-output', 'output', 0, ['ct state new jump cluster-ips-check']),
  ]
}

/** The name of the flowtable in the table. */
const flowtableName = 'services'

/**
 * Packets of connections that stand are forwarded from one of these devices to another past
 * all hooks, routing and conntrack (nft(8), FLOWTABLES).
 */
const flowtableText = (table: string, devices: readonly string[]): string => {
  const names = devices.map(device => `"${device}"`).join(', ')
  return `add flowtable ${table} ${flowtableName} { hook ingress priority 0; devices = { ${names} }; }\n`
}

/** Of Services only: what others forward is others' to say. */
export const flowRule = `ct state established ct status & dnat != 0 meta l4proto { 6, 17 } flow add @${flowtableName}`

/** '' where there can be one for these devices. Nothing is written. */
const flowtableProblem = async (
  run: RunTool,
  family: IpFamily,
  devices: readonly string[],
): Promise<string> => {
  const table = probeTable(family)
  const input = [
    `add table ${table}\n`,
    flowtableText(table, devices),
    `add chain ${table} forward { type filter hook forward priority 0; }\n`,
    `add rule ${table} forward ${flowRule}\n`,
  ].join('')
  try {
    await run('nft', ['--check', '-f', '-'], { input })
    return ''
  } catch (error) {
    if (!(error instanceof ToolError) || error.failure !== 'failed') throw error
    return errorText(error)
  }
}

/** Without the place in the input, which nobody sees; with what it may mean. */
const errorText = ({ stderr, message }: ToolError): string => {
  const line =
    stderr
      .trim()
      .split('\n')[0]
      ?.replace(/^\S*\d: (Error: )?/, '') || message
  return /No such file/.test(line)
    ? `${line} (the kernel lacks nf_flow_table, or a device is not there)`
    : line
}

const noFlowtable = (family: IpFamily, reason: string): Problem => ({
  object: 'flowtable',
  field: family,
  message: `--nftables-flowtable-devices: no flowtable is used, because of: ${reason}`,
})

/** By what is written: entries of maps that a packet to the VIP is looked up in, and chains they lead to. */
const nftablesCommands = (
  table: string,
  servicePort: ServicePort,
  vip: Vip,
  context: Context,
): readonly InspectCommand[] => {
  const { elements, parts } = compile({ ...servicePort, vips: [vip] }, context)
  // Others are slots of endpoints, which the chain draws from.
  const entries = elements.filter(({ value }) => /^(?:goto |drop$)/.test(value))
  const chains = new Set(entries.map(({ value }) => value.replace('goto ', '')))
  const sets = parts.flatMap(({ name }) => affinitySetOf(name) ?? [])
  return [
    ...entries.map(({ set, key, value }) => ({
      what: `map ${set}, ${key} : ${value}`,
      command: `nft get element ${table} ${set} '{ ${key} }'`,
    })),
    ...[...chains]
      .filter(chain => chain !== 'drop')
      .map(chain => ({
        what: `chain ${chain}`,
        command: `nft list chain ${table} '${chain}'`,
      })),
    ...[...new Set(sets)].map(set => ({
      what: `${boundClients}: set ${set}`,
      command: `nft list set ${table} '${set}'`,
    })),
  ]
}
