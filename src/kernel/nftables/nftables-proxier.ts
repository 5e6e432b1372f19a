import { listOfServicePorts } from '../../model/service-port-list.ts'
import type { Problem, ServicePort, Snapshot, Vip } from '../../model/snapshot.ts'
import type { Clock } from '../../util/clock.ts'
import type { IpFamily } from '../../util/ip.ts'
import { Known } from '../keeper/known.ts'
import type { Monitor } from '../nft/monitor.ts'
import { elementTexts } from '../nft/element-texts.ts'
import { OwnTable } from '../nft/own-table.ts'
import { partsTexts, removeText, type ChainPart, type Part } from '../nft/parts.ts'
import { listTables } from '../nft/tables.ts'
import { watchTable } from '../nft/table-watch.ts'
import { WantedTable } from '../nft/wanted-table.ts'
import type {
  KernelSettings,
  KernelSync,
  Look,
  Proxier,
  ProxierObserver,
} from '../proxier.ts'
import { type RunTool, ToolError } from '../run-tool.ts'
import { compile } from './compile.ts'
import { type Context, type Form, makeContext, settingsText } from './context.ts'
import { flowtableProblem, flowtableText, whyNoFlowtable } from './flowtable.ts'
import { fixedChains, setDefinitions } from './layout.ts'
import { nftablesLooks } from './looks.ts'
import { shortHash } from '../../util/short-hash.ts'
import { isClientsChain } from '../nft/clients.ts'
import { affinitySetOf, isPickChain } from './picks.ts'

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
  readonly wanted: WantedTable<ServicePort>
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
  readonly #written = new Known<Written>()
  #isClosed = false
  /** Whether the table is to be made anew, for what is in it is not known. */
  #isStrange = false
  /** '' where there is one, or none is asked for. */
  #whyNoFlowtable = ''

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
    const message = this.#whyNoFlowtable
    return message === '' ? [] : [flowtableProblem(this.#family, message)]
  }

  watch(damaged: (what: string) => void): () => void {
    const { run, clock, monitor, observer } = this.#deps
    return watchTable(this.#table, {
      run,
      clock,
      monitor,
      wanted: () => true,
      damaged,
      onBlind: why => observer.failed(`watching table ${this.#table.name}`, why),
    })
  }

  looks(servicePort: ServicePort, vip: Vip): readonly Look[] {
    const { context } = this.#written.value ?? {}
    return context ? nftablesLooks(this.#table.name, servicePort, vip, context) : []
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
      const wanted = new WantedTable<ServicePort>(table, one => compile(one, context))
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
    this.#whyNoFlowtable = ''
    if (flowtableDevices.length === 0) return []
    const { run } = this.#deps
    this.#whyNoFlowtable = await whyNoFlowtable(run, this.#family, flowtableDevices)
    return this.#whyNoFlowtable === '' ? flowtableDevices : []
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

/** A chain or a set that is in a table. */
type Found = Pick<Part, 'kind' | 'name'>

/**
 * An empty chain that says by its name which sets, maps and flowtable the table was made with:
 * chains are all that nft lists without reading the elements of sets.
 */
export const layoutChain = (definitions: string): ChainPart => {
  return { kind: 'chain', name: `layout-${shortHash(definitions)}`, rules: [] }
}

interface PartsThere {
  /** Left for Services by a process before. */
  readonly found: readonly Found[]
  /** Chains of others: one with a hook judges packets whatever leads to it. */
  readonly foreign: readonly Found[]
}

/** What is there besides `fixed`, by the names of chains. */
export const partsThere = (
  chains: readonly string[],
  fixed: readonly ChainPart[],
): PartsThere => {
  const names = new Set(fixed.map(({ name }) => name))
  const others = chains.filter(name => !names.has(name))
  return {
    found: others.filter(isOwn).flatMap((name): readonly Found[] => {
      const set = affinitySetOf(name)
      return set === undefined ? [chain(name)] : [chain(name), { kind: 'set', name: set }]
    }),
    foreign: others.filter(name => !isOwn(name)).map(chain),
  }
}

const isOwn = (name: string): boolean => isPickChain(name) || isClientsChain(name)

const chain = (name: string): Found => ({ kind: 'chain', name })
