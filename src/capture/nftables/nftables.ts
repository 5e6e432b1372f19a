import type { Element } from '../../kernel/elements/element-changes.ts'
import { forgetWaiting } from '../../kernel/conntrack.ts'
import { Monitor, type SpawnMonitor, spawnMonitor } from '../../kernel/nft/monitor.ts'
import { clientsPart, guards } from '../../kernel/nft/clients.ts'
import { elementTexts } from '../../kernel/nft/element-texts.ts'
import type { ChainPart } from '../../kernel/nft/parts.ts'
import { OwnTable } from '../../kernel/nft/own-table.ts'
import {
  localPacketProbe,
  type PacketProbe,
  probeTables,
} from '../../kernel/nft/packet-probe.ts'
import {
  deleteAbandoned,
  deleteTables,
  familyKeywords,
  knowsRule,
  listTables,
  protocolNumber,
  tableName,
  tableOf,
} from '../../kernel/nft/tables.ts'
import { watchTable } from '../../kernel/nft/table-watch.ts'
import { type Compiled, WantedTable } from '../../kernel/nft/wanted-table.ts'
import { proxyAddressOf } from '../../kernel/proxy-address.ts'
import { type RunTool, ToolError } from '../../kernel/run-tool.ts'
import type { Clock } from '../../util/clock.ts'
import type { AddressPort, IpFamily } from '../../util/ip.ts'
import type { RuleTable, RuleTables, TableSettings } from '../rule-table.ts'
import { probedRule, type VipRule } from '../vip-rule.ts'
import { holdText, silenceText, tableText } from './table-text.ts'

export interface NftablesDeps {
  readonly run: RunTool
  readonly clock: Clock
  /** By default a child process in this process's network namespace. */
  readonly spawnMonitor?: SpawnMonitor
  /** By default sockets in this process's network namespace. */
  readonly packetProbe?: PacketProbe
  /**
   * When Usher can't tell at once whether its rules were changed, because
   * `nft monitor` or a look at the table failed; it goes on trying.
   */
  readonly onBlind?: (reason: string) => void
  /** As in ChainSettings. */
  readonly natPriority?: number | undefined
}

/** Rules by `nft`, from nftables 1.0 on: a table `usher` in the families ip and ip6. */
export const nftablesTables = (deps: NftablesDeps): RuleTables => {
  const { run, clock, onBlind = () => {}, natPriority } = deps
  const monitor = new Monitor({
    clock,
    spawn: deps.spawnMonitor ?? spawnMonitor,
    table: tableName,
  })
  const packetProbe = deps.packetProbe ?? localPacketProbe(clock)
  const tableDeps = { run, clock, monitor, onBlind, natPriority }
  return {
    name: 'nftables',
    admitsHealthChecks: false,
    probe: family =>
      probeTables(run, family, table => tryTable(family, table, packetProbe, tableDeps)),
    table: family => new NftTable(family, tableOf(family, tableName), tableDeps),
  }
}

interface NftTableDeps {
  readonly run: RunTool
  readonly clock: Clock
  readonly monitor: Monitor
  /** When Usher can't tell for now whether its rules are whole. */
  readonly onBlind: (reason: string) => void
  readonly natPriority: number | undefined
}

/** Usher's table of one family, or that of a probe. */
class NftTable implements RuleTable {
  readonly #family: IpFamily
  readonly #deps: NftTableDeps
  readonly #table: OwnTable
  #rules: WantedTable<VipRule>
  #seesSockets: boolean | undefined
  #wanted = false
  #isHeld = false

  /** `table` is as in `ip usher`. */
  constructor(family: IpFamily, table: string, deps: NftTableDeps) {
    this.#family = family
    this.#deps = deps
    this.#table = new OwnTable(deps.run, table)
    this.#rules = this.#noRules()
  }

  async replace(rules: readonly VipRule[], settings: TableSettings): Promise<void> {
    const { run, clock, natPriority } = this.#deps
    const { name } = this.#table
    this.#wanted = true
    // The socket that a packet will come to (nft_socket, Linux 5.9): not every kernel has it.
    this.#seesSockets ??= await knowsRule(run, this.#family, 'socket wildcard 1 drop')
    this.#rules = this.#noRules()
    const { parts, elements } = await this.#rules.change([], rules, clock.now())
    const text = tableText(this.#family, name, {
      ...settings,
      natPriority,
      seesSockets: this.#seesSockets,
      isHeld: this.#isHeld,
    })
    const texts = [text, ...parts, ...(await elementTexts(name, elements))]
    await this.#table.write(texts, { elements, isWhole: true })
  }

  async change(gone: readonly VipRule[], come: readonly VipRule[]): Promise<void> {
    this.#needPlaced()
    const now = this.#deps.clock.now()
    const { parts, elements, idle } = await this.#rules.change(gone, come, now)
    const texts = await elementTexts(this.#table.name, elements)
    if (texts.length === 0) return
    const unneeded = idle()
    const isElementsOnly = parts.length === 0 && unneeded === ''
    await this.#table.write([...parts, ...texts, unneeded], { elements, isElementsOnly })
  }

  async hold(): Promise<void> {
    if (this.#table.isPlaced) await this.#hold(true)
    else await holdFound(this.#deps.run, this.#family)
    this.#isHeld = true
  }

  async release(): Promise<void> {
    this.#needPlaced()
    await this.#hold(false)
    this.#isHeld = false
  }

  async remove(): Promise<void> {
    this.#isHeld = false
    await removeTables(this.#deps.run, this.#family, this.#wanted)
    this.#wanted = false
  }

  watch(damaged: (what: string) => void): () => void {
    return watchTable(this.#table, {
      ...this.#deps,
      wanted: () => this.#wanted,
      damaged,
    })
  }

  #noRules(): WantedTable<VipRule> {
    return new WantedTable(this.#table.name, rule => compileRule(rule, this.#family))
  }

  #hold(isHeld: boolean): Promise<void> {
    return this.#table.write([holdText(this.#table.name, isHeld)])
  }

  #needPlaced(): void {
    if (this.#table.isPlaced) return
    const text = `nft: table ${this.#table.name} is not as Usher left it; write it whole first`
    throw new ToolError(text, 'failed', '')
  }
}

/** Clients who are led by a table that an earlier process has left wait, if there is one. */
const holdFound = async (run: RunTool, family: IpFamily): Promise<void> => {
  const own = tableOf(family, tableName)
  if (!(await listTables(run, family)).has(own)) return
  await run('nft', ['-f', '-'], { input: holdText(own, true) })
}

/**
 * Takes out Usher's own table, if there is one, and those of probes that were killed. No
 * client is refused by what is left of it: what leads to the proxy address goes first, and
 * what keeps the silence there when none is led there.
 * `isThere`: it is, and goes even where nft can't list what others have. Rejects with ToolError.
 */
const removeTables = async (
  run: RunTool,
  family: IpFamily,
  isThere = false,
): Promise<void> => {
  const own = tableOf(family, tableName)
  const all = await listTables(run, family).catch((error: unknown) => {
    if (!isThere) throw error
    return new Map([[own, []]])
  })
  if (all.has(own)) await removeOwn(run, family, own)
  await deleteAbandoned(run, all)
}

const removeOwn = async (run: RunTool, family: IpFamily, own: string): Promise<void> => {
  try {
    const input = silenceText(family, own, proxyAddressOf[family])
    await run('nft', ['-f', '-'], { input })
    await forgetWaiting(run, family)
    await deleteTables(run, [own])
    // A SYN that was on its way through the old rules may have got its entry since.
    await forgetWaiting(run, family)
  } catch (error) {
    if (!(error instanceof ToolError)) throw error
    const { message, failure, stderr } = error
    throw new ToolError(`table ${own} stays: ${message}`, failure, stderr)
  }
}

/**
 * Writes a table as Usher's will be, for addresses that no host has, with one rule that a
 * connection must follow.
 */
const tryTable = (
  family: IpFamily,
  table: string,
  packetProbe: PacketProbe,
  deps: NftTableDeps,
): Promise<boolean | undefined> => {
  const tried = new NftTable(family, table, deps)
  return packetProbe(family, async (from, to) => {
    const [rule, ...others] = probeRules(family, from, to)
    await tried.replace(others, settingsOf(family))
    if (rule !== undefined) await tried.change([], [rule])
  })
}

/** Of RFC 5737 and RFC 3849: addresses for documentation, so that nothing real is hit. */
const unused: Readonly<Record<IpFamily, { address: string; cidr: string }>> = {
  IPv4: { address: '192.0.2.1', cidr: '192.0.2.0/24' },
  IPv6: { address: '2001:db8::1', cidr: '2001:db8::/32' },
}

const settingsOf = (family: IpFamily): TableSettings => ({
  proxyAddress: unused[family].address,
  nodePortCidrs: [unused[family].cidr],
  podCidrs: [unused[family].cidr],
  healthCheckPorts: [],
})

/** One that a connection follows, and one of each other kind. */
const probeRules = (
  family: IpFamily,
  from: AddressPort,
  to: AddressPort,
): readonly VipRule[] => {
  const { address, cidr } = unused[family]
  const rule = probedRule(family, from, to)
  const refused = { address, port: 1, outside: 'reject', fromNode: 'drop' } as const
  return [
    rule,
    { ...rule, ...refused, key: 'a', kind: 'ClusterIP', protocol: 'UDP' },
    { ...rule, address, port: 2, key: 'b', allowedClients: [cidr] },
    { ...rule, ...refused, key: 'c', kind: 'NodePort', address: undefined },
    { ...rule, key: 'd', kind: 'NodePort', address: undefined, protocol: 'UDP' },
  ]
}

/** The sets and maps whose elements follow from the rules. */
type SetName =
  | 'vips'
  | 'vips-of-node'
  | 'vips-outside'
  | 'vips-from-node'
  | 'node-ports'
  | 'node-ports-of-node'
  | 'node-ports-outside'
  | 'node-ports-from-node'
  | 'guarded'
  | 'cluster-ips'

interface CaptureElement extends Element {
  readonly set: SetName
}

/**
 * What one rule stands for: elements of its own and, of a ClusterIP, one in common with others;
 * and the chain that drops all clients but those that it allows.
 */
const compileRule = (rule: VipRule, family: IpFamily): Compiled => {
  const { kind, address, protocol, port, to, outside, fromNode, allowedClients } = rule
  const service = `${protocolNumber[protocol]} . ${port}`
  const key = address === undefined ? service : `${address} . ${service}`
  const sets = address === undefined ? nodePortSets : vipSets
  const elements: CaptureElement[] = []
  const parts: ChainPart[] = []
  if (guards(allowedClients)) {
    const part = clientsPart(`${familyKeywords(family).family} saddr`, allowedClients)
    parts.push(part)
    if (address !== undefined)
      elements.push({ set: 'guarded', key, value: `jump ${part.name}` })
  }
  const value = `${to.address} . ${to.port}`
  if (outside === 'forward') elements.push({ set: sets.forward, key, value })
  else if (fromNode === 'forward') elements.push({ set: sets.ofNode, key, value })
  if (outside !== 'forward')
    elements.push({ set: sets.outside, key, value: verdicts[outside] })
  if (fromNode !== 'forward')
    elements.push({ set: sets.fromNode, key, value: verdicts[fromNode] })
  const isShared = kind === 'ClusterIP' && address !== undefined
  const shared: readonly CaptureElement[] = isShared
    ? [{ set: 'cluster-ips', key: address, value: '' }]
    : []
  return { elements, shared, parts }
}

const vipSets = {
  forward: 'vips',
  ofNode: 'vips-of-node',
  outside: 'vips-outside',
  fromNode: 'vips-from-node',
} as const

const nodePortSets = {
  forward: 'node-ports',
  ofNode: 'node-ports-of-node',
  outside: 'node-ports-outside',
  fromNode: 'node-ports-from-node',
} as const

const verdicts = { reject: 'goto refuse', drop: 'drop' } as const
