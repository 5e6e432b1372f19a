import { isDeepStrictEqual } from 'node:util'
import type { KernelSettings, KernelSync } from '../../kernel/proxier.ts'
import { proxyAddressOf } from '../../kernel/proxy-address.ts'
import { type RunTool, ToolError } from '../../kernel/run-tool.ts'
import { listOfServicePorts } from '../../model/service-port-list.ts'
import { listDiff } from '../../util/list-diff.ts'
import type { Clock } from '../../util/clock.ts'
import type { SteeringKind, SteeringRules } from '../steering.ts'
import {
  type BackendChoice,
  type ChosenBackend,
  provenBackend,
} from '../../kernel/xtables/choose-backend.ts'
import type { IpFamily } from '../../util/ip.ts'
import {
  type Backend,
  installedBackends,
  notifiedByNft,
} from '../../kernel/xtables/backend.ts'
import type { SpawnMonitor } from '../../kernel/nft/monitor.ts'
import { fixedChains, holdLine, type TableSettings } from './fixed-chains.ts'
import { takes, tryLines } from '../../kernel/xtables/try-lines.ts'
import { type TableName, tableNames, type Chain } from '../../kernel/xtables/wanted.ts'
import { entriesOf, groups, Layout, type LayoutChanges } from './layout.ts'
import type { Edit, LineRefCounts } from './line-ref-counts.ts'
import { type VipRule, vipRules } from './vip-rule.ts'
import { Canary } from '../../kernel/keeper/canary.ts'
import { Installed } from '../../kernel/keeper/installed.ts'
import { jumps, userspaceChains, own } from '../../kernel/xtables/capture-names.ts'
import { Unreadable, damageIn } from '../../kernel/xtables/damage.ts'
import type { Problem, ServicePort, Snapshot } from '../../model/snapshot.ts'
import { captureOwner } from '../../kernel/xtables/kube-chains.ts'
import { takeOutAll, chainLines, tableText } from '../../kernel/xtables/restore-text.ts'
import type { SavedTable } from '../../kernel/xtables/saved.ts'
import { tableNow } from '../../kernel/xtables/table-now.ts'
import { forgetWaiting } from '../../kernel/conntrack.ts'
import { jumpRepairs } from '../../kernel/xtables/jumps.ts'

export interface IptablesDeps {
  readonly run: RunTool
  readonly clock: Clock
  /** By default nothing is notified of changes: each check is made. */
  readonly spawnMonitor?: SpawnMonitor
  /** By default `auto`: as the system has it, or as others of Kubernetes do. */
  readonly backend?: BackendChoice
}

/**
 * Rules by iptables and ip6tables (1.6.2 or newer: `iptables-restore -w`), by either back
 * end. A packet's way, and which chains there are: docs/capture.md.
 */
export const iptablesSteering = (deps: IptablesDeps): SteeringKind => {
  const { run, backend = 'auto' } = deps
  const backends = provenBackend(run, backend, probeBackend)
  return {
    name: 'iptables',
    probe: backends.probe,
    rules: family =>
      new IptablesRules({ ...deps, family, choose: () => backends.choose(family) }),
  }
}

/** Rejects with ToolError when the kernel or the tool doesn't know a rule Usher uses. */
const probeBackend = (backend: Backend, family: IpFamily): Promise<void> =>
  tryLines(backend, {
    filter: sampleLines('filter', family),
    nat: sampleLines('nat', family),
  })

/** All matches and targets. */
const sampleLines = (table: TableName, family: IpFamily): readonly string[] => {
  const address = family === 'IPv4' ? '192.0.2.1' : '2001:db8::1'
  const settings = {
    proxyAddress: address,
    nodePortCidrs: undefined,
    podCidrs: [],
    healthCheckPorts: [1],
  }
  const fixed = fixedChains(settings, family)
    .filter(chain => chain.table === table)
    .flatMap(({ lines }) => lines)
  const at = { address, port: 1 }
  const rule: VipRule = {
    key: 'probe',
    name: 'default/probe',
    family,
    kind: 'ExternalIP',
    protocol: 'TCP',
    ...at,
    to: at,
    outside: 'drop',
    fromNode: 'drop',
    allowedClients: undefined,
  }
  const entries = [rule, { ...rule, protocol: 'UDP' as const }]
    .flatMap(entriesOf)
    .filter(({ group }) => groups[group].table === table)
  return [...fixed, ...entries.map(({ line }) => line)]
}

interface IptablesRulesDeps {
  readonly run: RunTool
  readonly clock: Clock
  readonly spawnMonitor?: SpawnMonitor
  readonly family: IpFamily
  /** Which back end to write by, as of now. */
  readonly choose: () => Promise<ChosenBackend>
}

interface InstalledChains {
  readonly backend: Backend
  readonly layout: Layout
  readonly settings: TableSettings
  readonly servicePorts: readonly ServicePort[]
  readonly did: KernelSync
}

/** A match for the socket that a packet will come to (xt_socket), which not every kernel has. */
const seesSockets = { filter: ['-m socket -j RETURN'] }

const holdEdit = { table: 'filter', chain: own.begin, line: holdLine } as const

/** Usher's rules of a family by iptables. */
class IptablesRules implements SteeringRules {
  readonly #deps: IptablesRulesDeps
  #chosen: ChosenBackend | undefined
  readonly #installed = new Installed<InstalledChains>()
  readonly #unreadable = new Unreadable()
  #isHeld = false
  /** Of the back end that was chosen. */
  #seesSockets: boolean | undefined

  constructor(deps: IptablesRulesDeps) {
    this.#deps = deps
  }

  async sync(snapshot: Snapshot, settings: KernelSettings): Promise<KernelSync> {
    const all = listOfServicePorts(snapshot)
    const wanted = settingsOf(snapshot, settings)
    // A write, also of nothing, makes a check of the chains that is under way void.
    if (this.#isWritten(all, wanted)) return { work: 'nothing' }
    const { did } = await this.#installed.write(known =>
      known !== undefined && isDeepStrictEqual(known.settings, wanted)
        ? this.#change(known, all)
        : this.#replace(all, wanted),
    )
    return did
  }

  #isWritten(servicePorts: readonly ServicePort[], settings: TableSettings): boolean {
    const { value } = this.#installed
    return (
      value !== undefined &&
      value.servicePorts.length === servicePorts.length &&
      value.servicePorts.every((one, i) => one === servicePorts[i]) &&
      isDeepStrictEqual(value.settings, settings)
    )
  }

  forget(): void {
    this.#installed.forget()
  }

  async hold(): Promise<void> {
    await this.#installed.write(async (_known, last) => {
      if (this.#isHeld) return last
      if (last === undefined) await holdFound(this.#deps.run, this.#deps.family)
      else {
        await last.backend.restore(await holdText(true))
        last.layout.lineRefs.add(holdEdit)
      }
      this.#isHeld = true
      return last
    })
  }

  async release(): Promise<void> {
    await this.#installed.write(async before => {
      if (before === undefined) throw new Error('iptables: release before a sync')
      await before.backend.restore(await holdText(false))
      before.layout.lineRefs.remove(holdEdit)
      this.#isHeld = false
      return before
    })
  }

  async remove(): Promise<void> {
    await this.#installed.write(async () => {
      await removeEverywhere(this.#deps.run, this.#deps.family)
      this.#isHeld = false
      this.#chosen = undefined
      this.#seesSockets = undefined
      return undefined
    })
  }

  watch(damaged: (what: string) => void): () => void {
    const { clock, spawnMonitor } = this.#deps
    const canary = new Canary({
      clock,
      installed: this.#installed,
      ...notifiedByNft(clock, spawnMonitor),
      // Of each VIP there are some four.
      size: ({ layout }) => [...layout.rules].length * 4,
      findDamage: (installed, whole) => damageOf(installed, this.#unreadable, whole),
      damaged,
    })
    return () => canary.stop()
  }

  problems(): readonly Problem[] {
    return this.#unreadable.problems()
  }

  close(): void {}

  async #change(
    known: InstalledChains,
    servicePorts: readonly ServicePort[],
  ): Promise<InstalledChains> {
    const { backend, layout } = known
    const { before, after } = listDiff(known.servicePorts, servicePorts)
    const changes = await layout.change(before.flatMap(vipRules), after.flatMap(vipRules))
    if (layout.isOvergrown && !this.#isHeld)
      return this.#replace(servicePorts, known.settings)
    const text = await changeText(changes)
    if (text === '') return { ...known, servicePorts, did: { work: 'nothing' } }
    await backend.restore(text)
    return { ...known, servicePorts, did: { work: 'partial' } }
  }

  async #replace(
    servicePorts: readonly ServicePort[],
    settings: TableSettings,
  ): Promise<InstalledChains> {
    const isFirst = this.#chosen === undefined
    const { chosen, others } = await this.#backends()
    this.#seesSockets ??= await takes(chosen, seesSockets)
    const all = { ...settings, seesSockets: this.#seesSockets, isHeld: this.#isHeld }
    const [layout, filter, nat] = await Promise.all([
      Layout.of(servicePorts.flatMap(vipRules), all, this.#deps.family),
      capturedIn(chosen, 'filter'),
      capturedIn(chosen, 'nat'),
    ])
    const saved = { filter, nat }
    for (const table of tableNames) this.#unreadable.note(chosen, saved[table])
    await chosen.restore(await replaceText(layout.lineRefs, saved))
    // What a process before this one has left there would be in force beside these.
    if (isFirst) for (const other of others) await removeBy(other)
    return { backend: chosen, layout, settings, servicePorts, did: { work: 'full' } }
  }

  /** Asked for once: rules of two back ends would be in each other's way. */
  async #backends(): Promise<ChosenBackend> {
    this.#chosen ??= await this.#deps.choose()
    return this.#chosen
  }
}

const settingsOf = (
  { family, healthChecks }: Snapshot,
  { nodePortCidrs, relay }: KernelSettings,
): TableSettings => {
  const ports = Array.from(healthChecks.values(), ({ port }) => port)
  return {
    proxyAddress: proxyAddressOf[family],
    nodePortCidrs,
    podCidrs: relay?.nodePods ?? [],
    healthCheckPorts: [...new Set(ports)].toSorted((a, b) => a - b),
  }
}

/**
 * What is wrong with Usher's jumps and first chains, or `whole`: whether all chains have as
 * many rules as they should; '' for nothing. Rejects with ToolError when nothing can be read.
 */
const damageOf = (
  { backend, layout: { lineRefs } }: InstalledChains,
  unreadable: Unreadable,
  whole: boolean,
): Promise<string> => {
  const expected = tableNames.map(table => {
    const sized = (name: string) => ({ name, rules: lineRefs.size(table, name) ?? 0 })
    const chains = firstChains[table].map(sized)
    const more = whole ? Array.from(lineRefs.chains(table), sized) : []
    return { name: table, jumps: jumps[table], chains, more }
  })
  return damageIn(backend, captureOwner, expected, unreadable, whole)
}

/** Those that packets come to first; the parts of long ones are behind them. */
const firstChains: Readonly<Record<TableName, readonly string[]>> = {
  filter: [
    userspaceChains.nonLocal,
    own.input,
    own.begin,
    own.output,
    own.silence,
    own.refused,
    own.refusedNodePorts,
    own.reject,
  ],
  nat: [
    userspaceChains.portalsContainer,
    userspaceChains.portalsHost,
    userspaceChains.nodePortContainer,
    userspaceChains.nodePortHost,
    own.portals,
    own.nodePorts,
    own.ofNode,
    own.nodePortsOfNode,
  ],
}

/** What a process before this one has left in one table, or this one has there. */
const capturedIn = (backend: Backend, table: TableName): Promise<SavedTable> =>
  tableNow(backend, table, captureOwner, jumps[table])

/** Clients who are led by rules that an earlier process has left wait, if there are any. */
const holdFound = async (run: RunTool, family: IpFamily): Promise<void> => {
  for (const backend of await backendsHere(run, family)) {
    const { chains } = await capturedIn(backend, 'filter')
    if (chains.has(own.begin)) await backend.restore(await holdText(true))
  }
}

/**
 * Takes out all of Usher's chains and the jumps to them, by whichever back end they were
 * made; silent when there are none. Rejects with ToolError, also where it is not
 * permitted to look.
 */
const removeEverywhere = async (run: RunTool, family: IpFamily): Promise<void> => {
  // What one back end can't do does not keep the rules of the other.
  const failures: unknown[] = []
  for (const backend of await backendsHere(run, family)) {
    await removeBy(backend).catch((error: unknown) => failures.push(error))
  }
  if (failures.length > 0) throw failures[0]
}

const removeBy = async (backend: Backend): Promise<void> => {
  const nat = await capturedIn(backend, 'nat')
  const filter = await capturedIn(backend, 'filter')
  // What leads to the proxy address goes first, and what keeps the silence there when no
  // client is led there any more.
  const led = await takeOutAll(backend, nat, captureOwner)
  const isOwned = [...filter.chains.keys()].some(chain =>
    captureOwner.hasChain('filter', chain),
  )
  const forget = async () =>
    isOwned ? forgetWaiting(backend.run, backend.family) : undefined
  await forget()
  const stayed = [...led, ...(await takeOutAll(backend, filter, captureOwner))].join(', ')
  // A SYN that was on its way through the old rules may have got its entry since.
  await forget()
  if (stayed === '') return
  const text = `chains ${stayed} are emptied, but stay: a rule leads there that ${backend.detail} can't read`
  throw new ToolError(text, 'failed', '')
}

/** Where there is no iptables it has left nothing. */
const backendsHere = async (
  run: RunTool,
  family: IpFamily,
): Promise<readonly Backend[]> => {
  try {
    return await installedBackends(run, family)
  } catch (error) {
    if (error instanceof ToolError && error.failure === 'missing') return []
    throw error
  }
}

type Saved = Readonly<Record<TableName, SavedTable>>

/**
 * Input for `iptables-restore --noflush` that makes Usher's chains what `lineRefs` says.
 * Each table is one transaction. `filter` comes first: what may not come in is known
 * before anything is led there.
 */
export const replaceText = async (
  lineRefs: LineRefCounts,
  saved: Saved,
): Promise<string> => {
  const texts: string[] = []
  for (const table of tableNames) {
    const there = [...saved[table].chains.keys()]
    const stale = there.filter(
      chain => captureOwner.hasChain(table, chain) && !lineRefs.has(table, chain),
    )
    const repairs = jumpRepairs(jumps[table], saved[table], captureOwner)
    const lines = replaceLines(repairs, lineRefs, table, stale)
    texts.push(await tableText(table, [...lineRefs.chains(table), ...stale], lines))
  }
  return texts.join('')
}

function* replaceLines(
  repairs: readonly string[],
  lineRefs: LineRefCounts,
  table: TableName,
  stale: readonly string[],
): Generator<string> {
  yield* repairs
  for (const [chain, line] of lineRefs.lines(table)) yield `-A ${chain} ${line}`
  for (const chain of stale) yield `-X ${chain}`
}

/**
 * Input for some changes; '' for none. What keeps clients out is put in before they are
 * led to a proxy port, and taken out after they no longer are.
 */
export const changeText = async ({
  newChains,
  added,
  removed,
  oldChains,
}: LayoutChanges): Promise<string> => {
  const newRules = chainLines(newChains, linesOf('-A', added, 'filter'))
  const moved = [...linesOf('-D', removed, 'nat'), ...linesOf('-A', added, 'nat')]
  // A chain goes after the rules that lead to it; emptied only then.
  const old = names(oldChains)
  const after = [
    ...linesOf('-D', removed, 'filter'),
    ...old.map(name => `:${name} - [0:0]`),
    ...old.map(name => `-X ${name}`),
  ]
  return [
    await tableText('filter', names(newChains), newRules),
    await tableText('nat', [], moved),
    await tableText('filter', [], after),
  ].join('')
}

const names = (chains: readonly Chain[]): readonly string[] =>
  chains.map(({ name }) => name)

const linesOf = (
  verb: '-A' | '-D',
  edits: readonly Edit[],
  table: TableName,
): readonly string[] =>
  edits
    .filter(edit => edit.table === table)
    .map(({ chain, line }) => `${verb} ${chain} ${line}`)

/** What `hold` puts in front of everything that begins, and `release` takes away again. */
const holdText = (isHeld: boolean): Promise<string> =>
  tableText(
    'filter',
    [],
    [isHeld ? `-I ${own.begin} 1 ${holdLine}` : `-D ${own.begin} ${holdLine}`],
  )
