import type { Clock } from '../../util/clock.ts'
import { ipFamilies, type IpFamily } from '../../util/ip.ts'
import { Turns } from '../../util/turns.ts'
import type { RunTool } from '../run-tool.ts'
import type { Probe } from '../probe.ts'
import type { HostAddresses } from './host-addresses.ts'
import { watchMissing } from './watch-missing.ts'
import { Sleeper } from '../keeper/sleeper.ts'
import type { SpawnMonitor } from '../nft/monitor.ts'
import { listOf, runIpBatch } from './ip-tool.ts'
import { forEachYielding } from '../../util/list-diff.ts'
import { cidrContains, isSingle, parseCidr } from '../../util/cidr.ts'

export interface LinuxHostAddressesDeps {
  readonly run: RunTool
  readonly clock: Clock
  /** Addresses of other families are none of its business, by default of neither. */
  readonly families?: readonly IpFamily[]
  /** By default nothing is notified of changes: each check is made. */
  readonly spawnMonitor?: SpawnMonitor
}

/**
 * By `ip` (iproute2): local routes for IPv4, and for IPv6 where net.ipv6.ip_nonlocal_bind
 * is 1; else IPv6 addresses on the loopback interface. Each bears a mark, by which a later
 * process knows it.
 *
 * Every IPv6 address of the host makes the start of every unbound IPv6 connection slower,
 * by some 0.2 us: the kernel looks at all of them for a source address (RFC 6724). Routes
 * cost nothing.
 */
export class LinuxHostAddresses implements HostAddresses {
  readonly #deps: LinuxHostAddressesDeps
  readonly #families: readonly IpFamily[]
  readonly #known = new Map<IpFamily, FamilyAddresses>()
  readonly #turns = new Turns()
  /** Those of whose addresses none is reached: another program took the rule away (ip-rule(8)). */
  readonly #unruled = new Set<IpFamily>()
  /** At the last check: otherwise there is more to check than what changes. */
  #isSettled = false

  constructor(deps: LinuxHostAddressesDeps) {
    this.#deps = deps
    this.#families = deps.families ?? ipFamilies
  }

  sync(wanted: readonly string[]): Promise<ReadonlyMap<string, string>> {
    return this.#turns.take(async () => {
      const errors = new Map<string, string>()
      for (const family of this.#families) {
        const failed = await this.#syncOne(family, wanted.filter(isOf[family]))
        for (const [cidr, why] of failed) errors.set(cidr, why)
      }
      return errors
    })
  }

  watch(damaged: (what: string) => void): () => void {
    const { clock, spawnMonitor: spawn } = this.#deps
    const line = ['ip', 'monitor', 'address', 'route', 'rule'] as const
    const sleeper = spawn && new Sleeper({ clock, spawn, line })
    const notified = { sleeper, isNotified: () => this.#isSettled }
    return watchMissing(clock, () => this.missing(), damaged, notified)
  }

  missing(): Promise<readonly string[]> {
    return this.#turns.take(() => this.#missing())
  }

  remove(): Promise<void> {
    return this.#turns.take(async () => {
      this.#known.clear()
      for (const family of this.#families) {
        for (const kind of await this.#kindsOf(family)) await this.#made(kind).removeAll()
      }
    })
  }

  probe(family: IpFamily): Promise<Probe> {
    return this.#turns.take(async () => {
      const [kind] = await this.#kindsOf(family)
      return probeKind(kind, this.#deps.run)
    })
  }

  async #syncOne(
    family: IpFamily,
    wanted: readonly string[],
  ): Promise<ReadonlyMap<string, string>> {
    try {
      const errors = await (await this.#of(family)).sync(new Set(wanted))
      const reason =
        'no rule of this host looks up table local (ip rule add pref 0 table local)'
      return this.#unruled.has(family)
        ? new Map(wanted.map(cidr => [cidr, reason]))
        : errors
    } catch (error) {
      return new Map(wanted.map(cidr => [cidr, (error as Error).message]))
    }
  }

  async #missing(): Promise<readonly string[]> {
    const missing: string[] = []
    this.#isSettled = true
    for (const [family, addresses] of this.#known) {
      try {
        missing.push(...(await this.#changedRule(family)))
        missing.push(...(await addresses.missing()))
        this.#isSettled &&= addresses.isSettled
      } catch {
        // Nothing is known then. A sync that finds `ip` broken reports it; this looks again.
        this.#isSettled = false
      }
    }
    return missing
  }

  async #changedRule(family: IpFamily): Promise<readonly string[]> {
    const version = family === 'IPv4' ? '-4' : '-6'
    const args = [version, 'rule', 'show', 'table', 'local']
    const isThere = (await listOf(this.#deps.run, args)).trim() !== ''
    if (isThere !== this.#unruled.has(family)) return []
    if (isThere) this.#unruled.delete(family)
    else this.#unruled.add(family)
    return [`the rule for table local, ${family}`]
  }

  /** Addresses of the other kind are from a time when the host was set up otherwise. */
  async #of(family: IpFamily): Promise<FamilyAddresses> {
    const known = this.#known.get(family)
    if (known !== undefined) return known
    const [kind, ...others] = await this.#kindsOf(family)
    for (const other of others) await this.#made(other).removeAll()
    const made = this.#made(kind)
    this.#known.set(family, made)
    return made
  }

  /** First the one to use here. */
  async #kindsOf(family: IpFamily): Promise<readonly [AddressKind, ...AddressKind[]]> {
    if (family === 'IPv4') return [ipv4Routes]
    const sysctl = await nonlocalBind(this.#deps.run)
    // A kernel without IPv6 can't list IPv6 routes, and has none.
    if (sysctl === undefined) return [ipv6OnLoopback]
    return sysctl === '1' ? [ipv6Routes, ipv6OnLoopback] : [ipv6OnLoopback, ipv6Routes]
  }

  #made(kind: AddressKind): FamilyAddresses {
    const { run, clock } = this.#deps
    return new FamilyAddresses(kind, run, clock)
  }
}

const isOf: Readonly<Record<IpFamily, (cidr: string) => boolean>> = {
  IPv4: cidr => !cidr.includes(':'),
  IPv6: cidr => cidr.includes(':'),
}

/** Undefined where the kernel has no IPv6. */
const nonlocalBind = async (run: RunTool): Promise<string | undefined> => {
  try {
    return (await run('cat', ['/proc/sys/net/ipv6/ip_nonlocal_bind'])).trim()
  } catch {
    return undefined
  }
}

/** Beside the proxy addresses, so that a probe never takes one away. */
const spare = { IPv4: '169.254.77.89/32', IPv6: 'fd75:7368:6572::2/128' } as const

/** Adds an address that is not in use, looks whether it bears the mark, and removes it. */
const probeKind = async (kind: AddressKind, run: RunTool): Promise<Probe> => {
  const cidr = spare[kind.family]
  try {
    const version = await run('ip', ['-V'])
    const detail = /iproute2-[^,\s]+/.exec(version)?.[0] ?? version.trim()
    const reason = (await runIpBatch(run, [kind.add(cidr)])).get(0) ?? ''
    // Left by a probe that was killed, or of a probe at the same time.
    if (reason !== '' && !/file exists|already assigned/i.test(reason)) {
      return { usable: false, detail: `ip ${kind.add(cidr)}: ${reason}` }
    }
    const listed = (await listOf(run, kind.list)).split('\n').map(kind.marked)
    await runIpBatch(run, [kind.remove(cidr)])
    if (listed.includes(cidr)) return { usable: true, detail }
    return {
      usable: false,
      detail: `${detail} or the kernel is too old to mark addresses as Usher's`,
    }
  } catch (error) {
    return { usable: false, detail: (error as Error).message }
  }
}

/** Until what could not be set, or was another program's, is tried again. */
const retryMs = 30_000

/** Those of one kind, and what is known of them. Calls don't overlap. */
class FamilyAddresses {
  readonly #kind: AddressKind
  readonly #run: RunTool
  readonly #clock: Pick<Clock, 'now'>
  /** Undefined while that is not known. */
  #ours: Set<string> | undefined
  /** The host has these by itself. */
  readonly #foreign = new Set<string>()
  readonly #errors = new Map<string, string>()
  #retryAt = Infinity
  /** Ours until another program took them away; they could not be set again since. */
  readonly #taken = new Set<string>()

  constructor(kind: AddressKind, run: RunTool, clock: Pick<Clock, 'now'>) {
    this.#kind = kind
    this.#run = run
    this.#clock = clock
  }

  /** Nothing is to be tried again. */
  get isSettled(): boolean {
    return this.#retryAt === Infinity
  }

  /** See HostAddresses. */
  async sync(wanted: ReadonlySet<string>): Promise<ReadonlyMap<string, string>> {
    if (this.#clock.now() >= this.#retryAt) this.#forgetFailures()
    try {
      const ours = (this.#ours ??= await this.#list())
      const come = [...wanted].filter(cidr => this.#isMissing(ours, cidr))
      if (come.length > 0) await this.#add(ours, come)
      const gone = [...ours].filter(cidr => !wanted.has(cidr) && !this.#errors.has(cidr))
      if (gone.length > 0) await this.#remove(ours, gone)
    } catch (error) {
      // What was done of it is not known.
      this.#ours = undefined
      this.#retryAt = Math.min(this.#retryAt, this.#clock.now() + retryMs)
      return new Map(Array.from(wanted, cidr => [cidr, (error as Error).message]))
    }
    for (const cidr of this.#foreign) if (!wanted.has(cidr)) this.#foreign.delete(cidr)
    for (const cidr of this.#errors.keys()) {
      if (!wanted.has(cidr) && !this.#ours?.has(cidr)) this.#errors.delete(cidr)
    }
    for (const cidr of this.#taken) if (!this.#errors.has(cidr)) this.#taken.delete(cidr)
    return new Map(this.#errors)
  }

  /**
   * Which of ours, or of the host's own, were taken away since; they count as missing from now on.
   * Those that could not be put back are given again when it is time to try.
   */
  async missing(): Promise<readonly string[]> {
    const again = this.#clock.now() >= this.#retryAt ? [...this.#taken] : []
    const held = this.#foreign.size === 0 ? undefined : await this.#held()
    for (const cidr of held === undefined ? [] : this.#foreign)
      if (held?.get(cidr) !== 'local' && this.#foreign.delete(cidr)) again.push(cidr)
    if (this.#ours === undefined || this.#ours.size === 0) return again
    const now = await this.#list()
    const missing = [...this.#ours].filter(cidr => !now.has(cidr))
    for (const cidr of missing) {
      this.#ours.delete(cidr)
      this.#taken.add(cidr)
    }
    return [...again, ...missing]
  }

  /** All that bear the mark. */
  async removeAll(): Promise<void> {
    this.#forgetFailures()
    const ours = await this.#list()
    this.#ours = undefined
    await this.#remove(ours, [...ours])
    const [first] = this.#errors
    if (first !== undefined) throw new Error(`${first[0]} stays: ${first[1]}`)
  }

  #forgetFailures(): void {
    this.#errors.clear()
    this.#foreign.clear()
    this.#retryAt = Infinity
  }

  #isMissing(ours: ReadonlySet<string>, cidr: string): boolean {
    return !ours.has(cidr) && !this.#foreign.has(cidr) && !this.#errors.has(cidr)
  }

  #fail(cidr: string, reason: string): void {
    this.#errors.set(cidr, reason)
    if (this.#retryAt === Infinity) this.#retryAt = this.#clock.now() + retryMs
  }

  async #list(): Promise<Set<string>> {
    const text = await listOf(this.#run, this.#kind.list)
    const found: string[] = []
    await forEachYielding(text.split('\n'), line => {
      const cidr = this.#kind.marked(line)
      if (cidr !== undefined) found.push(cidr)
    })
    return new Set(found)
  }

  async #add(ours: Set<string>, wanted: readonly string[]): Promise<void> {
    const cidrs = await this.#possible(wanted)
    if (cidrs.length === 0) return
    const errors = await runIpBatch(this.#run, cidrs.map(this.#kind.add))
    const exist: string[] = []
    cidrs.forEach((cidr, index) => {
      const reason = errors.get(index)
      if (reason === undefined) ours.add(cidr)
      else if (/file exists|already assigned/i.test(reason)) exist.push(cidr)
      else this.#fail(cidr, reason)
    })
    if (exist.length > 0) await this.#judgeExisting(exist)
  }

  /** Without those that can't be set, and those that the host has already. */
  async #possible(cidrs: readonly string[]): Promise<readonly string[]> {
    const possible: string[] = []
    const gateways = await gatewaysOf(this.#run, this.#kind.family)
    for (const cidr of cidrs) {
      const reason =
        gatewayProblem(cidr, gateways) ||
        (isSingle(cidr) ? '' : await this.#rangeProblem(cidr))
      if (reason === '') possible.push(cidr)
      else this.#fail(cidr, reason)
    }
    // A second route for an address is refused; a second interface with it is not.
    if (this.#kind.ranges || possible.length === 0) return possible
    const held = await this.#held()
    for (const cidr of possible) if (held.has(cidr)) this.#foreign.add(cidr)
    return possible.filter(cidr => !held.has(cidr))
  }

  async #rangeProblem(cidr: string): Promise<string> {
    return this.#kind.ranges
      ? swallowedReason(this.#run, cidr)
      : 'IPv6 addresses can only be added one by one, unless net.ipv6.ip_nonlocal_bind is 1'
  }

  /** A route that exists, and is not marked as ours, is another program's. */
  async #judgeExisting(cidrs: readonly string[]): Promise<void> {
    const held = await this.#held()
    for (const cidr of cidrs) {
      const type = held.get(cidr) ?? 'local'
      if (type === 'local') this.#foreign.add(cidr)
      else this.#fail(cidr, `this host has a ${type} route for it`)
    }
  }

  async #held(): Promise<ReadonlyMap<string, string>> {
    const text = await listOf(this.#run, this.#kind.listHeld)
    const held = new Map<string, string>()
    await forEachYielding(text.split('\n'), line => {
      const one = this.#kind.held(line)
      if (one !== undefined) held.set(one.cidr, one.type)
    })
    return held
  }

  async #remove(ours: Set<string>, cidrs: readonly string[]): Promise<void> {
    if (cidrs.length === 0) return
    const errors = await runIpBatch(this.#run, cidrs.map(this.#kind.remove))
    cidrs.forEach((cidr, index) => {
      const reason = errors.get(index)
      if (reason === undefined || isGone.test(reason)) ours.delete(cidr)
      else this.#fail(cidr, reason)
    })
  }
}

/** Another program was faster. */
const isGone = /no such process|address not found|cannot assign requested address/i

/**
 * Why a range must not become this host's own: because it holds a network that the host
 * has a route to. Local routes are looked up before all others, so that the network's
 * other hosts, the gateway among them, could not be reached any more. '' when nothing is
 * in the way.
 */
const swallowedReason = async (run: RunTool, range: string): Promise<string> => {
  const block = parseCidr(range)
  if (block === undefined) return `${range} is not a CIDR`
  const version = block.family === 'IPv4' ? '-4' : '-6'
  const text = await listOf(run, [
    version,
    'route',
    'show',
    'table',
    'main',
    'root',
    range,
  ])
  const inside = text.split('\n').find(line => {
    const [to = '', ...rest] = line.split(' ')
    // Those that lead nowhere begin with their type: `blackhole 10.96.0.0/12`.
    const [address = '', length = String(block.family === 'IPv4' ? 32 : 128)] =
      to.split('/')
    if (rest.length === 0 || !cidrContains(block, address)) return false
    // An equal one may be meant to go; that of an interface's own network is not.
    const isConnected = rest.includes('kernel')
    return Number(length) >= block.prefixLength + (isConnected ? 0 : 1)
  })
  if (inside === undefined) return ''
  return `it holds a network that this host has a route to: ${inside.trim()}`
}

/**
 * The gateways by which this host reaches others, of all its tables (ip-rule(8)). One that became its own, as the external
 * IP of a Service may ask for, would cut it off.
 */
const gatewaysOf = async (run: RunTool, family: IpFamily): Promise<readonly string[]> => {
  const version = family === 'IPv4' ? '-4' : '-6'
  const text = await listOf(run, [version, 'route', 'show', 'table', 'all'])
  const found = Array.from(
    text.matchAll(/\bvia (?:inet6? )?(\S+)/g),
    ([, via = '']) => via,
  )
  return [...new Set(found)]
}

/** Why a CIDR must not become this host's own because of them; '' when it may. */
const gatewayProblem = (cidr: string, gateways: readonly string[]): string => {
  const block = parseCidr(cidr)
  const inside = gateways.find(one => block !== undefined && cidrContains(block, one))
  return inside === undefined ? '' : `${inside} is a gateway of this host's routes`
}

/** One way in which Linux takes addresses for its own, in the words of `ip`. */
export interface AddressKind {
  readonly family: IpFamily
  /** Whether a whole range can be set at once. */
  readonly ranges: boolean
  /** A line for `ip -batch` each. */
  readonly add: (cidr: string) => string
  readonly remove: (cidr: string) => string
  /** Arguments of `ip` that print those that bear Usher's mark, and maybe others. */
  readonly list: readonly string[]
  /** The canonical CIDR in such a line, if it bears the mark; undefined if not. */
  readonly marked: (line: string) => string | undefined
  /** Arguments that print the addresses that the host has, in the form of `held`. */
  readonly listHeld: readonly string[]
  /** What such a line says. */
  readonly held: (line: string) => Held | undefined
}

/** Something that the host has. */
interface Held {
  readonly cidr: string
  /** `local`, or what else it is: `broadcast`. */
  readonly type: string
}

/**
 * Who made a route (ip-route(8), `proto`); numbers that have no name are free for all.
 * 117 is the letter u.
 */
const routeProtocol = 117

/**
 * Addresses got a protocol of their own with Linux 5.18 and iproute2 6.3. The metric of an
 * address, there since Linux 4.18, means nothing without a prefix route, and so is free to
 * be a mark: `ushr`.
 */
const addressMetric = 0x75_73_68_72

/**
 * A local route makes a range or any number of addresses the host's own at once, and no
 * list of interfaces grows. bind(2) takes an IPv4 address that a local route has.
 */
export const ipv4Routes: AddressKind = localRoutes('IPv4')

/** bind(2) takes such an address only where net.ipv6.ip_nonlocal_bind is 1. */
export const ipv6Routes: AddressKind = localRoutes('IPv6')

/**
 * bind(2) wants an IPv6 address to be on an interface (inet6_bind). It is the loopback
 * interface: it is there on every kernel, and no program takes what is on it for the
 * address of the node. Preferred for no time it is the source of no connection (RFC 6724,
 * rule 3), and no /128 needs a prefix route.
 */
export const ipv6OnLoopback: AddressKind = {
  family: 'IPv6',
  ranges: false,
  add: cidr =>
    `addr add ${cidr} dev lo nodad preferred_lft 0 noprefixroute metric ${addressMetric}`,
  remove: cidr => `addr del ${cidr} dev lo`,
  list: ['-6', '-o', 'addr', 'show', 'dev', 'lo'],
  marked: line =>
    line.includes(` metric ${addressMetric} `) ? addressIn(line) : undefined,
  // Usher's own are deprecated, and `-deprecated` leaves those out.
  listHeld: ['-6', '-o', 'addr', 'show', '-deprecated'],
  held: line => {
    const cidr = addressIn(line)
    return cidr === undefined ? undefined : { cidr, type: 'local' }
  },
}

function localRoutes(family: IpFamily): AddressKind {
  const version = family === 'IPv4' ? '-4' : '-6'
  const table = [version, 'route', 'show', 'table', 'local']
  return {
    family,
    ranges: true,
    add: cidr => `route add local ${cidr} dev lo proto ${routeProtocol}`,
    remove: cidr => `route del local ${cidr} dev lo proto ${routeProtocol}`,
    list: [...table, 'proto', String(routeProtocol)],
    marked: line => routeIn(line, family)?.cidr,
    listHeld: table,
    held: line => routeIn(line, family),
  }
}

/** `1: lo    inet6 fd00::7/128 metric 9 scope global ...`: the address as a /128. */
const addressIn = (line: string): string | undefined => {
  const address = /\sinet6 ([0-9a-f:.]+)\//.exec(line)?.[1]
  return address === undefined ? undefined : `${address}/128`
}

/** `local 10.96.0.0/12 dev lo scope host`; a single address has no length. */
const routeIn = (line: string, family: IpFamily): Held | undefined => {
  const [type, to] = line.split(' ', 2)
  if (type === undefined || to === undefined) return undefined
  const single = family === 'IPv4' ? '/32' : '/128'
  return { type, cidr: to.includes('/') ? to : `${to}${single}` }
}
