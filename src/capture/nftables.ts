import { forgetWaiting } from '../kernel/conntrack.ts'
import { Installed } from '../kernel/keeper/installed.ts'
import type { Monitor, SpawnMonitor } from '../kernel/nft/monitor.ts'
import { OwnTable } from '../kernel/nft/own-table.ts'
import {
  localPacketProbe,
  type PacketProbe,
  probeTables,
} from '../kernel/nft/packet-probe.ts'
import { watchTable } from '../kernel/nft/table-watch.ts'
import {
  deleteAbandoned,
  deleteTables,
  familyKeywords,
  knowsRule,
  listTables,
  servicesTableName,
  tableName,
  tableOf,
} from '../kernel/nft/tables.ts'
import { servicesMonitor, snapshotOf } from '../kernel/nftables/nftables-kind.ts'
import { NftablesProxier } from '../kernel/nftables/nftables-proxier.ts'
import { probedServicePort, sampleServicePorts } from '../kernel/probe.ts'
import {
  type KernelSettings,
  type KernelSync,
  plainSettings,
  type InspectCommand,
  type Proxier,
  type ProxierKind,
} from '../kernel/proxier.ts'
import { proxyAddressOf } from '../kernel/proxy-address.ts'
import { type RunTool, ToolError } from '../kernel/run-tool.ts'
import type { Problem, ServicePort, Snapshot, Vip } from '../model/snapshot.ts'
import { listOfServicePorts } from '../model/service-port-list.ts'
import type { Clock } from '../util/clock.ts'
import { type AddressPort, ipFamilies, type IpFamily } from '../util/ip.ts'
import { type SteeringKind, type SteeringRules, steeredPort } from './steering.ts'

export interface NftablesDeps {
  readonly run: RunTool
  readonly clock: Clock
  /** By default a child process in this process's network namespace. */
  readonly spawnMonitor?: SpawnMonitor
  /** By default sockets in this process's network namespace. */
  readonly packetProbe?: PacketProbe
  /**
   * When Usher can't tell at once whether its rules were changed, because
   * `nft monitor` or a look at a table failed; it goes on trying.
   */
  readonly onBlind?: (reason: string) => void
}

/**
 * Rules by `nft`, from nftables 1.0.1 on: those of nftables mode's proxier in the table
 * `usher-services`, and a table `usher` that knows no Service and guards the proxy address.
 */
export const nftablesSteering = (deps: NftablesDeps): SteeringKind => {
  const { run, clock, onBlind = () => {} } = deps
  const monitor = servicesMonitor({ clock, spawn: deps.spawnMonitor })
  const packetProbe = deps.packetProbe ?? localPacketProbe(clock)
  const common = { run, clock, monitor, onBlind }
  return {
    name: 'nftables',
    probe: family =>
      probeTables(run, family, table => trySteering(family, table, packetProbe, common)),
    rules: family =>
      new NftablesSteering(family, {
        ...common,
        proxier: aloneProxier(family, tableOf(family, servicesTableName), common),
        guard: new Guard(family, tableOf(family, tableName), common),
      }),
  }
}

/** Nothing is led to endpoints, whose forms make no difference then. */
const aloneProxier = (family: IpFamily, table: string, deps: GuardDeps): Proxier =>
  new NftablesProxier(family, {
    ...deps,
    table,
    observer: {
      restoreFailed: () => {},
      failed: (_what, reason) => deps.onBlind(reason),
    },
    form: () => 'own',
  })

/** nftables mode, whose proxiers guard the proxy address from when the relay serves beside endpoints. */
export const guardedNftables = (kind: ProxierKind, deps: GuardDeps): ProxierKind => ({
  ...kind,
  proxier: family =>
    new NftablesSteering(family, {
      ...deps,
      proxier: kind.proxier(family),
      guard: new Guard(family, tableOf(family, tableName), deps),
    }),
})

/** Its guards, once nothing is steered any more. Rejects with ToolError. */
export const removeGuards = async (run: RunTool): Promise<void> => {
  for (const family of ipFamilies) {
    const own = tableOf(family, tableName)
    if ((await listTables(run, family)).has(own)) await removeGuard(run, family, own)
  }
}

interface GuardDeps {
  readonly run: RunTool
  readonly clock: Clock
  readonly monitor: Monitor
  /** When Usher can't tell for now whether its rules are whole. */
  readonly onBlind: (reason: string) => void
}

interface SteeringDeps extends Pick<GuardDeps, 'run'> {
  readonly proxier: Proxier
  readonly guard: Guard
}

/** A proxier, with the guard where it may steer to the relay. */
class NftablesSteering implements SteeringRules {
  readonly #family: IpFamily
  readonly #deps: SteeringDeps
  #isWanted = false

  constructor(family: IpFamily, deps: SteeringDeps) {
    this.#family = family
    this.#deps = deps
  }

  /**
   * The guard comes first, or there would be a way to the relay without it; but for one that takes the
   * place of a table that an earlier version has led by, and which holds its clients until then.
   */
  async sync(snapshot: Snapshot, settings: KernelSettings): Promise<KernelSync> {
    this.#isWanted = true
    const { proxier, guard } = this.#deps
    if (guard.stands || !isGuarded(snapshot, settings))
      return proxier.sync(snapshot, settings)
    const [replaces] = await Promise.all([guard.isFound(), guard.prepare()])
    if (!replaces) await guard.write()
    const did = await proxier.sync(snapshot, settings)
    if (replaces) await guard.write()
    return { ...did, work: 'full' }
  }

  forget(): void {
    this.#deps.proxier.forget()
    this.#deps.guard.forget()
  }

  problems(): readonly Problem[] {
    return this.#deps.proxier.problems()
  }

  watch(damaged: (what: string) => void): () => void {
    const stops = [this.#deps.proxier.watch(damaged), this.#deps.guard.watch(damaged)]
    return () => {
      for (const stop of stops) stop()
    }
  }

  inspectCommands(servicePort: ServicePort, vip: Vip): readonly InspectCommand[] {
    return this.#deps.proxier.inspectCommands?.(servicePort, vip) ?? []
  }

  hold(): Promise<void> {
    return this.#deps.guard.hold()
  }

  release(): Promise<void> {
    return this.#deps.guard.release()
  }

  async remove(): Promise<void> {
    this.#deps.guard.removed()
    await removeTables(this.#deps.run, this.#family, this.#isWanted)
    this.#isWanted = false
  }

  close(): void {
    this.#deps.proxier.close()
  }
}

/** Whether something leads to the relay, or is to soon. */
const isGuarded = (snapshot: Snapshot, { relay }: KernelSettings): boolean =>
  relay?.serves === 'alone' ||
  (relay !== undefined &&
    listOfServicePorts(snapshot).some(({ steeredTo }) => steeredTo !== undefined))

/** The table of one family that guards the proxy address, or that of a probe. */
class Guard {
  readonly #family: IpFamily
  readonly #deps: GuardDeps
  readonly #proxyAddress: string
  readonly #table: OwnTable
  readonly #watches = new Set<() => void>()
  readonly #installed = new Installed<true>()
  #seesSockets: boolean | undefined
  #isWanted = false
  #isHeld = false

  /** `table` is as in `ip usher`. */
  constructor(
    family: IpFamily,
    table: string,
    deps: GuardDeps,
    proxyAddress = proxyAddressOf[family],
  ) {
    this.#family = family
    this.#deps = deps
    this.#proxyAddress = proxyAddress
    this.#table = new OwnTable(deps.run, table)
  }

  /** Whether it is there, as far as is known. */
  get stands(): boolean {
    return this.#installed.value === true && this.#table.isPlaced
  }

  /** Whether a table of its name is there, also of another process. */
  async isFound(): Promise<boolean> {
    return (await listTables(this.#deps.run, this.#family)).has(this.#table.name)
  }

  forget(): void {
    this.#installed.forget()
  }

  /** It is no longer wanted, and not held. */
  removed(): void {
    this.forget()
    this.#isWanted = false
    this.#isHeld = false
  }

  /** Finds out what this kernel has of what the rules need, unless that is known; `write` does it, too. */
  async prepare(): Promise<void> {
    // The socket that a packet will come to (nft_socket, Linux 5.9): not every kernel has it.
    this.#seesSockets ??= await knowsRule(
      this.#deps.run,
      this.#family,
      'socket wildcard 1 drop',
    )
  }

  /** In one transaction, in the place of what was there. Leaves `hold` as it is. */
  async write(): Promise<void> {
    await this.prepare()
    this.#isWanted = true
    await this.#installed.write(async () => {
      await this.#table.write([this.#text()], { isWhole: true })
      return true
    })
    for (const begin of this.#watches) begin()
  }

  async hold(): Promise<void> {
    if (this.#table.isPlaced) await this.#table.write([holdText(this.#table.name, true)])
    else await this.#holdFound()
    this.#isHeld = true
  }

  async release(): Promise<void> {
    if (!this.#table.isPlaced) {
      const text = `nft: table ${this.#table.name} is not as Usher left it; write it whole first`
      throw new ToolError(text, 'failed', '')
    }
    await this.#table.write([holdText(this.#table.name, false)])
    this.#isHeld = false
  }

  /** From the first write on: what was done to a table of that name before is no damage. */
  watch(damaged: (what: string) => void): () => void {
    const { run, clock, monitor, onBlind } = this.#deps
    const wanted = (): boolean => this.#isWanted
    let stop: (() => void) | undefined
    const begin = (): void => {
      const deps = { run, clock, monitor, wanted, damaged, onBlind }
      stop ??= watchTable(this.#table, deps)
    }
    if (this.#isWanted) begin()
    this.#watches.add(begin)
    return () => {
      this.#watches.delete(begin)
      stop?.()
    }
  }

  #text(): string {
    return guardText(this.#family, this.#table.name, {
      proxyAddress: this.#proxyAddress,
      seesSockets: this.#seesSockets ?? false,
      isHeld: this.#isHeld,
    })
  }

  /** Clients who are led by rules that an earlier process has left wait, if there are any. */
  async #holdFound(): Promise<void> {
    if (!(await this.isFound())) return
    const input = holdText(this.#table.name, true)
    await this.#deps.run('nft', ['-f', '-'], { input })
  }
}

/**
 * Takes out both tables, those that are there, and those of probes that were killed. No client is
 * refused by what is left of them: what leads to the proxy address goes first, and what keeps the
 * silence there when none is led there.
 * `isThere`: they are, and go even where nft can't list what others have. Rejects with ToolError.
 */
const removeTables = async (
  run: RunTool,
  family: IpFamily,
  isThere: boolean,
): Promise<void> => {
  const own = tableOf(family, tableName)
  const services = tableOf(family, servicesTableName)
  const all = await listTables(run, family).catch((error: unknown) => {
    if (!isThere) throw error
    return new Map([own, services].map(name => [name, []]))
  })
  if (all.has(own)) await removeGuard(run, family, own, services)
  else if (all.has(services)) await deleteTables(run, [services])
  await deleteAbandoned(run, all)
}

/** `services`: a table that leads there, and goes first. */
const removeGuard = async (
  run: RunTool,
  family: IpFamily,
  own: string,
  services?: string,
): Promise<void> => {
  try {
    const settings = {
      proxyAddress: proxyAddressOf[family],
      seesSockets: false,
      isHeld: true,
    }
    const led =
      services === undefined ? '' : `add table ${services}\ndelete table ${services}\n`
    // In place of an earlier version's, which led there itself.
    await run('nft', ['-f', '-'], { input: `${led}${guardText(family, own, settings)}` })
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

/** Fills the chain `hold` of the table `own` (`ip usher`), or empties it. */
const holdText = (own: string, isHeld: boolean): string => {
  const chain = `${own} hold`
  const drop = isHeld ? `add rule ${chain} drop\n` : ''
  return `add chain ${chain}\nflush chain ${chain}\n${drop}`
}

interface GuardSettings {
  readonly proxyAddress: string
  /** Whether a rule can ask for a packet's socket; see `knowsRule`. */
  readonly seesSockets: boolean
  /** New connections wait until `release`. */
  readonly isHeld: boolean
}

/** Usher's are bound to the proxy address itself; after a crash others may have its ports. */
const notOurs =
  'ct state new socket wildcard 1 drop comment "a program has that port on all addresses"'

/**
 * The proxy address can't be reached but through a VIP, and is silent about connections
 * that were never accepted: with no relay there for a moment (a restart, a crash) the
 * client's kernel sends its SYN again a second later, and the next relay takes it. A reset
 * that refuses a SYN bears an ACK; one that answers what is left of an old connection does
 * not (RFC 9293, 3.10.7.1), and is let out.
 * What leaves it untranslated belongs to a flow that conntrack has forgotten; without it
 * the client's next packet makes that flow whole again.
 */
const guardText = (
  family: IpFamily,
  own: string,
  { proxyAddress, seesSockets, isHeld }: GuardSettings,
): string => {
  const { family: ip, icmp } = familyKeywords(family)
  return `add table ${own}
delete table ${own}
table ${own} {
	comment "Usher guards the address of its proxy ports; it undoes changes made here"
	set stamp {
		comment "by which Usher knows its own changes"
		type mark
	}
	chain hold {
		comment "drops while another Usher is about to take over"
${isHeld ? '\t\tdrop\n' : ''}	}
	chain to-proxy {
		ct status & dnat != 0 ct state new jump hold
${seesSockets ? `		${notOurs}\n` : ''}		ct status & dnat != 0 accept
		drop comment "not sent to a Service"
	}
	chain input {
		type filter hook input priority 0; policy accept;
		${ip} daddr ${proxyAddress} goto to-proxy
	}
	chain from-proxy {
		ct state { invalid, untracked } drop comment "conntrack does not know it"
		ct status & dnat == 0 drop comment "conntrack has forgotten its flow"
		tcp flags & (rst | ack) == rst | ack ct status & assured == 0 drop comment "nobody listens, yet"
		${icmp} type destination-unreachable drop comment "nobody listens, yet"
	}
	chain output {
		type filter hook output priority 0; policy accept;
		${ip} saddr ${proxyAddress} goto from-proxy
	}
}
`
}

/**
 * Writes both tables as Usher's will be, for addresses that no host has, with one rule that a
 * connection must follow.
 */
const trySteering = async (
  family: IpFamily,
  table: string,
  packetProbe: PacketProbe,
  deps: GuardDeps,
): Promise<boolean | undefined> => {
  const proxier = aloneProxier(family, table, deps)
  const guardTable = `${table}-guard`
  const guard = new Guard(family, guardTable, deps, unused[family].address)
  try {
    return await packetProbe(family, async (from, to) => {
      const samples = samplesOf(family, to)
      await proxier.sync(snapshotOf(family, samples), settingsOf(family))
      await guard.write()
      const all = [...samples, ...steered(ledOf(family, from), to)]
      await proxier.sync(snapshotOf(family, all), settingsOf(family))
    })
  } finally {
    await deleteTables(deps.run, [guardTable])
  }
}

/** Of RFC 5737 and RFC 3849: addresses for documentation, so that nothing real is hit. */
const unused: Readonly<Record<IpFamily, { address: string; cidr: string }>> = {
  IPv4: { address: '192.0.2.1', cidr: '192.0.2.0/24' },
  IPv6: { address: '2001:db8::1', cidr: '2001:db8::/32' },
}

const settingsOf = (family: IpFamily): KernelSettings => ({
  ...plainSettings,
  nodePortCidrs: [unused[family].cidr],
  relay: { serves: 'alone', nodePods: [unused[family].cidr] },
})

const samplesOf = (family: IpFamily, to: AddressPort): readonly ServicePort[] =>
  sampleServicePorts(family, unused[family].address)
    .filter(({ protocol }) => protocol !== 'SCTP')
    .flatMap(one => steered(one, to))

const ledOf = (family: IpFamily, from: AddressPort): ServicePort => ({
  ...probedServicePort(family, 'led', []),
  vips: [{ kind: 'ExternalIP', ...from }],
})

const steered = (servicePort: ServicePort, to: AddressPort): readonly ServicePort[] => {
  const vips = servicePort.vips.map(
    vip => ({ vip, capture: 'nftables', binds: [to], reason: '' }) as const,
  )
  const one = steeredPort({ servicePort, vips })
  return one === undefined ? [] : [one]
}
