import type { Problem, ServicePort, Snapshot, Vip } from '../../model/snapshot.ts'
import { cidrContains, parseCidr } from '../../util/cidr.ts'
import { type IpFamily, familyOf, isLoopback } from '../../util/ip.ts'
import { Turns } from '../../util/turns.ts'
import {
  type KernelSettings,
  type KernelSync,
  type InspectCommand,
  type Proxier,
  type ProxierKind,
  type RuleCounts,
  boundClients,
} from '../proxier.ts'
import { type RunTool, ToolError } from '../run-tool.ts'
import { type Backend, randomFully } from '../xtables/backend.ts'
import { type ChosenBackend, provenBackend } from '../xtables/choose-backend.ts'
import { jumpRepairs } from '../xtables/jumps.ts'
import { chainLines, tableText } from '../xtables/restore-text.ts'
import type { SavedTable } from '../xtables/saved.ts'
import { chainsNow } from '../xtables/table-now.ts'
import { Unreadable, damageIn } from '../xtables/damage.ts'
import {
  type CompileSettings,
  type Compiled,
  type Draining,
  type KnownState,
  type ServerClaim,
  type Touched,
  WantedState,
  removal,
  serverChanges,
  setChanges,
} from './wanted-state.ts'
import {
  type Loads,
  addressChanges,
  changeAddresses,
  deviceIndex,
  deviceName,
  knownState,
  readAddresses,
  readKernel,
  readLoads,
  setDamage,
  setSizes,
} from './read-kernel.ts'
import { Canary } from '../keeper/canary.ts'
import { Installed } from '../keeper/installed.ts'
import { type IpvsDeps, schedulerOf } from './ipvs-deps.ts'
import { restoreServers, restoreSets } from './ipvs-tools.ts'
import { type RuleTable, ipvsOwner, isIpvsChain, ruleTables } from './rules.ts'
import { type SetKind, maxEntries, setName } from './set-names.ts'
import { type ServerId, protocolOf, serverPlace, serverText } from './server-id.ts'
import { forEachYielding } from '../../util/list-diff.ts'
import { probeIpvs, trySetsAndRules } from './probe.ts'
import type { Clock, Timer } from '../../util/clock.ts'

/** What the kernel has, and what it is made from. */
interface State {
  readonly settings: string
  readonly wanted: WantedState
  readonly installed: InstalledTables
  /** What the last sync did to it. */
  readonly did: KernelSync
}

/** Of one IP family. */
class IpvsProxier implements Proxier {
  readonly #deps: IpvsDeps
  readonly #family: IpFamily
  readonly #choose: () => Promise<ChosenBackend>
  readonly #turns = new Turns()
  readonly #draining: DrainWatch
  /** Unknown: all has to be read and written. */
  readonly #state = new Installed<State>()
  readonly #unreadable = new Unreadable()
  #tooSmall: readonly SetKind[] = []
  #isClosed = false

  constructor(deps: IpvsDeps, family: IpFamily, choose: () => Promise<ChosenBackend>) {
    this.#choose = choose
    this.#deps = { ...deps, run: this.#run(deps.run) }
    this.#family = family
    this.#draining = new DrainWatch({
      clock: deps.clock,
      loads: () => loadsNow(deps),
      remove: drained => this.#turns.take(() => this.#removeDrained(drained)),
    })
  }

  sync(snapshot: Snapshot, settings: KernelSettings): Promise<KernelSync> {
    return this.#turns.take(() => this.#sync(snapshot, settings))
  }

  forget(): void {
    this.#state.forget()
  }

  problems(): readonly Problem[] {
    const tooSmall = this.#tooSmall.map(kind => ({
      object: `ipset ${setName(this.#family, kind)}`,
      field: '',
      message: `it has no room for more than ${maxEntries} entries; the rest is left out`,
    }))
    return [...tooSmall, ...this.#unreadable.problems()]
  }

  watch(damaged: (what: string) => void): () => void {
    const canary = new Canary({
      clock: this.#deps.clock,
      installed: this.#state,
      size: ({ installed }) => installed.known.servers.size,
      findDamage: ({ installed }, whole) => this.#findDamage(installed, whole),
      damaged,
    })
    return () => canary.stop()
  }

  inspectCommands(servicePort: ServicePort, vip: Vip): readonly InspectCommand[] {
    const compiled = this.#state.value?.wanted.compiledFor(servicePort, vip)
    if (compiled === undefined) return []
    return ipvsCommands(this.#family, compiled, servicePort.affinityMs)
  }

  close(): void {
    this.#isClosed = true
    this.#draining.close()
  }

  async #sync(snapshot: Snapshot, settings: KernelSettings): Promise<KernelSync> {
    const text = JSON.stringify(settings)
    const { did } = await this.#state.write(known =>
      known?.settings === text
        ? this.#partial(snapshot, known)
        : this.#full(snapshot, settings, text),
    )
    return did
  }

  async #partial(snapshot: Snapshot, state: State): Promise<State> {
    const { wanted, installed } = state
    const touched = await wanted.take(snapshot)
    const lines = await this.#reporting('partial', () =>
      this.#write(touched, wanted, installed),
    )
    const work = lines === 0 ? 'nothing' : 'partial'
    return { ...state, did: { work, rules: counts(installed.tables, 0) } }
  }

  async #full(
    snapshot: Snapshot,
    settings: KernelSettings,
    text: string,
  ): Promise<State> {
    const [deps, family] = [this.#deps, this.#family]
    const { chosen: backend } = await this.#choose()
    const contents = await readKernel(deps, family)
    await prepareKernel(deps, family)
    const { elsewhere } = contents.addresses
    const wanted = new WantedState(this.#compileSettings(settings, elsewhere))
    const touched = await wanted.take(snapshot)
    const isWanted = (id: string): boolean => wanted.server(id) !== undefined
    const known = await knownState(contents, isWanted, deps.options.excludeCidrs)
    await touched.known(known)
    const tables = ruleTables(family, settings, randomFully(backend))
    const index = await deviceIndex(deps)
    const installed = { family, backend, tables, known, deviceIndex: index }
    this.#draining.clear()
    await this.#reporting('full', async () => {
      const isLed = await leadsAway(backend, tables)
      const rules = { leadsAway: isLed, write: () => this.#writeRules(backend, tables) }
      await this.#write(touched, wanted, installed, rules)
    })
    const did = { work: 'full', rules: counts(tables, 1) } as const
    return { settings: text, wanted, installed, did }
  }

  /** Gives the number of lines that were written. */
  async #write(
    touched: Touched,
    wanted: WantedState,
    { known }: InstalledTables,
    rules?: RulesToWrite,
  ): Promise<number> {
    const { run } = this.#deps
    const sets = await setChanges(this.#family, touched, wanted, known)
    const claim = (id: ServerId): ServerClaim | undefined => wanted.server(id)
    const servers = await serverChanges(touched.servers, claim, known)
    const addresses = await addressChanges(
      this.#family,
      touched.addresses,
      address => wanted.addresses.has(address),
      known.addresses,
    )
    // What rules and servers go by is there before a packet is taken in for it.
    await restoreSets(run, sets.first)
    if (rules?.leadsAway === false) await rules.write()
    await restoreServers(run, servers.lines)
    await changeAddresses(run, addresses)
    this.#refuseClosed()
    if (rules?.leadsAway === true) await rules.write()
    await restoreSets(run, sets.last)
    this.#tooSmall = sets.tooSmall
    this.#draining.add(servers.draining)
    const lines = [sets.first, servers.lines, addresses, sets.last]
    return lines.reduce((sum, { length }) => sum + length, 0)
  }

  async #reporting<T>(work: 'partial' | 'full', write: () => Promise<T>): Promise<T> {
    try {
      return await write()
    } catch (error) {
      if (!this.#isClosed) this.#deps.observer.restoreFailed(this.#family, work)
      throw error
    }
  }

  async #removeDrained(drained: readonly Draining[]): Promise<void> {
    if (this.#isClosed || this.#state.value === undefined) return
    const { servers } = this.#state.value.installed.known
    const lines = drained.flatMap(one => {
      const server = servers.get(one.id)
      return server?.destinations.get(one.destination) === 0 ? [removal(one, server)] : []
    })
    const what = `removing drained destinations (${this.#family})`
    try {
      // After one that fails it is not known what the kernel has.
      await this.#state.write(async state => {
        await restoreServers(this.#deps.run, lines)
        return state
      })
      this.#deps.observer.failed(what, '')
    } catch (error) {
      this.#deps.observer.failed(what, (error as Error).message)
    }
  }

  async #findDamage(installed: InstalledTables, whole: boolean): Promise<string> {
    if (this.#isClosed) return ''
    const { observer } = this.#deps
    const what = `looking at the rules (${this.#family})`
    try {
      const damage = await damageOf(this.#deps, installed, this.#unreadable, whole)
      observer.failed(what, '')
      return damage
    } catch (error) {
      // A sync that fails reports it too.
      observer.failed(what, (error as Error).message)
      return ''
    }
  }

  async #writeRules(backend: Backend, tables: readonly RuleTable[]): Promise<void> {
    const texts: string[] = []
    for (const table of tables) {
      const { name, jumps, chains } = table
      const saved = await builtInNow(backend, table)
      this.#unreadable.note(backend, saved)
      const repairs = jumpRepairs(jumps, saved, ipvsOwner)
      const names = chains.map(chain => chain.name)
      texts.push(await tableText(name, names, chainLines(chains, repairs)))
    }
    await backend.restore(texts.join(''))
  }

  #run(run: RunTool): RunTool {
    return async (...call) => {
      this.#refuseClosed()
      return run(...call)
    }
  }

  /** What was under way while it closed goes no further: another mode may be there by now. */
  #refuseClosed(): void {
    if (this.#isClosed) throw new Error('the ipvs mode has ended')
  }

  #compileSettings(
    { nodeAddresses, nodePortCidrs }: KernelSettings,
    elsewhere: ReadonlySet<string>,
  ): CompileSettings {
    const cidrs = nodePortCidrs?.flatMap(text => parseCidr(text) ?? [])
    return {
      scheduler: schedulerOf(this.#deps.options),
      elsewhere,
      nodePortAddresses: [...new Set(nodeAddresses)].filter(
        address =>
          familyOf(address) === this.#family &&
          !isLoopback(address) &&
          // Link-local ones are another on each link.
          !address.startsWith('fe80:') &&
          cidrs?.some(cidr => cidrContains(cidr, address)) !== false,
      ),
    }
  }
}

interface RulesToWrite {
  /**
   * Whether rules of another mode lead VIPs away before ipvs sees them. Those hold until
   * it can take over; without them (VIPs that are the host's own, as with a capture by
   * addresses) it has them from its first virtual server on, and is to masquerade then.
   */
  readonly leadsAway: boolean
  readonly write: () => Promise<void>
}

const leadsAway = async (
  backend: Backend,
  tables: readonly RuleTable[],
): Promise<boolean> => {
  const nat = tables.find(({ name }) => name === 'nat')
  if (nat === undefined) return false
  const { rules } = await builtInNow(backend, nat)
  return rules.some(
    ({ chain, target }) =>
      (chain === 'PREROUTING' || chain === 'OUTPUT') && target.startsWith('KUBE-'),
  )
}

/** The rules that lead from the built-in chains, and no chain that is long. */
const builtInNow = (
  backend: Backend,
  { name, builtIn: chains, jumps }: RuleTable,
): Promise<SavedTable> => chainsNow(backend, name, ipvsOwner, { chains, jumps })

/** `share`: of the rules, how many were written; all or none. */
const counts = (tables: readonly RuleTable[], share: 0 | 1): RuleCounts => {
  const count = (name: string): { total: number; written: number } => {
    const chains = tables.find(table => table.name === name)?.chains ?? []
    const total = chains.reduce((sum, { lines }) => sum + lines.length, 0)
    return { total, written: total * share }
  }
  return { filter: count('filter'), nat: count('nat') }
}

/** What a sync has left in the kernel. */
interface InstalledTables {
  readonly family: IpFamily
  readonly backend: Backend
  readonly tables: readonly RuleTable[]
  readonly known: KnownState
  readonly deviceIndex: string
}

/** Of all virtual servers of the network namespace. */
const loadsNow = async ({ read }: Pick<IpvsDeps, 'read'>): Promise<Loads> =>
  readLoads((await read('/proc/net/ip_vs')) ?? '')

/**
 * What is missing of it, in a few words; '' for nothing. `whole`: addresses too, which
 * take 50 ms where there are 10 000.
 */
const damageOf = async (
  deps: IpvsDeps,
  installed: InstalledTables,
  unreadable: Unreadable,
  whole: boolean,
): Promise<string> => {
  const { known, family } = installed
  if ((await deviceIndex(deps)) !== installed.deviceIndex)
    return `device ${deviceName} is gone, or another one`
  return (
    (await serverDamage(await loadsNow(deps), known)) ||
    (await rulesDamage(installed, unreadable, whole)) ||
    setDamage(setSizes(await deps.run('ipset', ['list', '-t'])), known.sets, family) ||
    (whole ? await addressDamage(deps, installed) : '')
  )
}

const serverDamage = async (loads: Loads, { servers }: KnownState): Promise<string> => {
  let wrong = ''
  await forEachYielding(servers, ([id, { destinations }]) => {
    const there = loads.get(id)
    if (there === undefined) wrong ||= `virtual server ${id} is gone`
    for (const [destination, weight] of destinations)
      if (there?.get(destination)?.weight !== weight)
        wrong ||= `destination ${destination} of virtual server ${id} is gone or has another weight`
  })
  return wrong
}

const rulesDamage = (
  { backend, tables }: InstalledTables,
  unreadable: Unreadable,
  lists: boolean,
): Promise<string> => {
  const expected = tables.map(({ name, jumps, chains }) => ({
    name,
    jumps,
    chains: chains.map(chain => ({ name: chain.name, rules: chain.lines.length })),
    more: [],
  }))
  return damageIn(backend, ipvsOwner, expected, unreadable, lists)
}

const addressDamage = async (
  { run }: IpvsDeps,
  { family, known }: InstalledTables,
): Promise<string> => {
  const { own } = await readAddresses(run, family)
  const missing = [...known.addresses].find(address => !own.has(address))
  return missing === undefined ? '' : `address ${missing} on ${deviceName} is gone`
}

/** Services by the kernel's own load balancer (ipvs), one virtual server for each VIP. */
export const ipvsKind = (deps: IpvsDeps): ProxierKind => {
  const { run, backend = 'auto' } = deps
  const backends = provenBackend(run, backend, (one, family) =>
    trySetsAndRules(run, one, family),
  )
  return {
    name: 'ipvs',
    probe: family => probeIpvs(deps, family, () => backends.probe(family)),
    proxier: family => new IpvsProxier(deps, family, () => backends.choose(family)),
    owns: { chain: isIpvsChain, nftablesTable: () => false, ipvs: true },
  }
}

/**
 * Sets what ipvs needs of the kernel besides rules. Rejects with ToolError when something
 * that it can't do without can't be set.
 */
const prepareKernel = async (deps: IpvsDeps, family: IpFamily): Promise<void> => {
  const { setSysctl, observer, run, options } = deps
  // Without it nothing that goes through ipvs is masqueraded.
  await setSysctl('net/ipv4/vs/conntrack', '1').catch((error: unknown) => {
    throw new ToolError(`setting net/ipv4/vs/conntrack=1: ${String(error)}`, 'failed', '')
  })
  const wished = [...(await ipvsSysctls(deps)), ...hostSysctls(deps, family)]
  for (const [name, value] of wished) {
    const reason = await setSysctl(name, value).then(() => '', String)
    observer.failed(`setting ${name}=${value}`, reason)
  }
  const { tcpTimeoutMs, tcpFinTimeoutMs, udpTimeoutMs } = options
  const timeouts = [tcpTimeoutMs, tcpFinTimeoutMs, udpTimeoutMs]
  if (timeouts.some(ms => ms > 0))
    await run('ipvsadm', ['--set', ...timeouts.map(ms => String(Math.ceil(ms / 1000)))])
}

type Setting = readonly [name: string, value: string]

const ipvsSysctls = async ({ read }: IpvsDeps): Promise<readonly Setting[]> => {
  const release = (await read('/proc/sys/kernel/osrelease')) ?? ''
  return [
    // A connection to a destination that is gone ends, and so does what keeps a client there.
    ['net/ipv4/vs/expire_nodest_conn', '1'],
    ['net/ipv4/vs/expire_quiescent_template', '1'],
    ...(delaysReuse(release) ? [['net/ipv4/vs/conn_reuse_mode', '0'] as const] : []),
  ]
}

/**
 * Kernels in which a client's port that is used again within two minutes costs it a second
 * (kubernetes/kubernetes#81775): 4.1 brought the switch, 5.9 made it harmless.
 */
export const delaysReuse = (release: string): boolean => {
  const [, major, minor] = /^(\d+)\.(\d+)/.exec(release) ?? []
  const version = Number(major) * 1000 + Number(minor)
  return version >= 4001 && version <= 5008
}

const hostSysctls = ({ options }: IpvsDeps, family: IpFamily): readonly Setting[] => {
  if (family === 'IPv6') return []
  const strict: readonly Setting[] = [
    ['net/ipv4/conf/all/arp_ignore', '1'],
    ['net/ipv4/conf/all/arp_announce', '2'],
  ]
  return [['net/ipv4/ip_forward', '1'], ...(options.strictArp ? strict : [])]
}

/** By what is wanted for one VIP: virtual servers, and entries of the sets whose packets are dropped. */
const ipvsCommands = (
  family: IpFamily,
  { servers, entries }: Pick<Compiled, 'servers' | 'entries'>,
  affinityMs: number,
): readonly InspectCommand[] => [
  ...entries
    .filter(([kind]) => kind.endsWith('-DROP'))
    .map(([kind, entry]) => ({
      what: `set ${setName(family, kind)}, ${entry}: ${kind === 'EXTERNAL-DROP' ? 'clients from outside' : 'clients'} are dropped`,
      command: `ipset test ${setName(family, kind)} ${entry}`,
    })),
  ...servers.flatMap(({ id }) => [
    {
      what: `virtual server ${serverText(id)}, and its real servers`,
      command: `ipvsadm -Ln ${id}`,
    },
    ...(affinityMs > 0 ? [boundCommand(id)] : []),
  ]),
]

/** Templates of persistence are listed among connections, with client port 0. */
const boundCommand = (id: ServerId): InspectCommand => ({
  what: `${boundClients}: persistence of ${serverText(id)}`,
  command: `ipvsadm -Lnc | awk '$1 == "${protocolOf(id)}" && $4 ~ /:0$/ && $5 == "${serverPlace(id)}"'`,
})

interface DrainWatchDeps {
  readonly clock: Clock
  /** Of all virtual servers. */
  readonly loads: () => Promise<Loads>
  /** Takes those of them out that are still to go. Does not reject. */
  readonly remove: (drained: readonly Draining[]) => Promise<void>
}

/** Milliseconds between looks. */
const everyMs = 10_000
/** Of the time, how much may go into looking: 2 %. */
const pauseFactor = 50
/** However long a look takes: kube-proxy's pause. */
const longestMs = 60_000

/** Waits for destinations of weight 0 to lose their last connection. Costs nothing when none is. */
export class DrainWatch {
  readonly #deps: DrainWatchDeps
  readonly #waiting = new Map<string, Draining>()
  #timer: Timer | undefined
  #isClosed = false

  constructor(deps: DrainWatchDeps) {
    this.#deps = deps
  }

  /** Those that drain now, besides those that were added before. */
  add(draining: readonly Draining[]): void {
    for (const one of draining) this.#waiting.set(`${one.id} ${one.destination}`, one)
    if (this.#timer === undefined) this.#wait(everyMs)
  }

  /** Forgets them all. */
  clear(): void {
    this.#waiting.clear()
  }

  close(): void {
    this.#isClosed = true
    this.#deps.clock.clearTimeout(this.#timer)
  }

  #wait(ms: number): void {
    if (this.#isClosed || this.#waiting.size === 0) return
    this.#timer = this.#deps.clock.setTimeout(() => void this.#check(), ms)
    this.#timer.unref?.()
  }

  async #check(): Promise<void> {
    const { clock, loads, remove } = this.#deps
    const started = clock.now()
    const asked = [...this.#waiting]
    try {
      const now = await loads()
      const took = clock.now() - started
      const ended = asked.filter(
        ([key, one]) =>
          // What came back and went again meanwhile has begun anew.
          this.#waiting.get(key) === one && !isBusy(now, one),
      )
      for (const [key] of ended) this.#waiting.delete(key)
      if (ended.length > 0 && !this.#isClosed) await remove(ended.map(([, one]) => one))
      this.#next(took)
    } catch {
      // It could not be read: the next look will tell.
      this.#next(0)
    }
  }

  #next(took: number): void {
    this.#timer = undefined
    this.#wait(Math.min(Math.max(everyMs, took * pauseFactor), longestMs))
  }
}

/** A destination that is gone, or that came back and has a weight again, drains no more. */
const isBusy = (loads: Loads, { id, destination }: Draining): boolean => {
  const load = loads.get(id)?.get(destination)
  return load?.weight === 0 && load.connections > 0
}
