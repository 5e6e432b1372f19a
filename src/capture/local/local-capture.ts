import { isDeepStrictEqual } from 'node:util'
import type { HostAddresses } from '../../kernel/host-addresses/host-addresses.ts'
import type { Problem, ServicePort, Vip } from '../../model/snapshot.ts'
import { asCidr, type Cidr, cidrContains, isSingle, parseCidr } from '../../util/cidr.ts'
import { type IpFamily, isLoopback, isWildcard } from '../../util/ip.ts'
import { Turns } from '../../util/turns.ts'
import { UntilDone, type UntilDoneDeps } from '../../kernel/keeper/until-done.ts'
import { type Capture, type Placement, listenerId } from '../capture.ts'
import { ListenCapture } from '../listen.ts'
import { type LocalAddresses, nodeAddresses, isOwnAddress } from '../local-addresses.ts'
import { vipGroups } from '../vip-group.ts'
import { permissionAdvice } from '../../kernel/permission-advice.ts'
import { KeyedList } from '../../util/keyed-list.ts'
import { listDiff, forEachYielding } from '../../util/list-diff.ts'

export interface LocalCaptureDeps extends UntilDoneDeps {
  readonly hostAddresses: HostAddresses
  readonly localAddresses: LocalAddresses
  /** Ranges of ClusterIPs, of either family, as far as they are known. */
  readonly serviceCidrs: () => readonly string[]
  /** Addresses that must not become this host's own, by what they are; none by default. */
  readonly elsewhere?: () => ReadonlyMap<string, string>
  /** See `ListenCaptureDeps`. */
  readonly nodePortCidrs?: (family: IpFamily) => readonly string[] | undefined
  /** Leave the addresses when Usher ends: clients are refused until the next one. */
  readonly keepRules: boolean
  /** Another program took addresses away; '' for `error` when they are back. */
  readonly repaired: (what: string, error: string) => void
}

const noneElsewhere = (): ReadonlyMap<string, string> => new Map()

/** What the host was asked to have. */
interface Asked {
  /** Canonical CIDRs. */
  readonly ranges: readonly string[]
  /** Single addresses beside them. */
  readonly singles: ReadonlySet<string>
}

/**
 * Node ports are on each of the node's addresses, not on the wildcard: that would answer on
 * all VIPs too, and leave no room for a VIP with the same port.
 */
const everything: Readonly<Record<IpFamily, string>> = { IPv4: '0.0.0.0/0', IPv6: '::/0' }

/**
 * Without rules of the kernel's: VIPs become addresses of this host, and the relay listens
 * on them. Ranges of ClusterIPs become so as a whole where that is possible.
 */
export class LocalCapture implements Capture {
  readonly #deps: LocalCaptureDeps
  readonly #listen: Capture
  readonly #wanted = new WantedAddresses()
  #asked: Asked = { ranges: [], singles: new Set() }
  /** What of it could not be set, or not be taken back. By CIDR. */
  #errors: ReadonlyMap<string, string> = new Map()
  #endWatch: (() => void) | undefined
  #isUsed = false
  /** What was taken away since the last sync; '' for nothing. */
  #damage = ''
  /** VIPs that are no addresses of this host, though all was done for it. */
  #lost: readonly string[] = []
  readonly #turns = new Turns()
  /** For what could not be set: IPv6 may come up later. */
  readonly #retry: UntilDone

  constructor(deps: LocalCaptureDeps) {
    const { localAddresses, nodePortCidrs } = deps
    this.#deps = deps
    this.#retry = new UntilDone(deps, () =>
      this.#turns.take(async () => {
        await this.#ask(this.#asked)
        return this.problems()
      }),
    )
    this.#listen = new ListenCapture({
      mode: 'local',
      proxyAddress: () => ({ reason: 'local has no proxy ports' }),
      proxyPortRange: undefined,
      proxyPorts: noProxyPorts,
      localAddresses,
      nodePortCidrs: family => nodePortCidrs?.(family) ?? [everything[family]],
      ofInterfaces: family => nodeAddresses(family, this.#asked.singles),
      advice: address =>
        this.#wanted.refused.get(address) ??
        heldProblem(this.#errors.get(asCidr(address))),
      remark: localLimits,
    })
  }

  /** Addresses come before their listeners, and go after them, in `steer`. */
  place(servicePorts: readonly ServicePort[]): Promise<readonly Placement[]> {
    return this.#turns.take(async () => {
      this.#isUsed = true
      const before = this.#asked.singles
      const { serviceCidrs, localAddresses, elsewhere = noneElsewhere } = this.#deps
      const cidrs = serviceCidrs().flatMap(text => parseCidr(text) ?? [])
      const ranges = cidrs.map(({ text }) => text)
      const isNew = ranges.join() !== this.#asked.ranges.join()
      // Of a range that can't be set as a whole each address is set by itself.
      if (isNew || this.#errors.size > 0) await this.#ask({ ranges, singles: before })
      const had = cidrs.filter(({ text }) => !this.#errors.has(text))
      const wanted = await this.#wanted.take(servicePorts, had, elsewhere())
      const { refused } = this.#wanted
      const given = [...before].filter(address => refused.has(address))
      const kept = given.length > 0 ? [] : before
      const singles = wanted === before ? wanted : new Set([...kept, ...wanted])
      const asked = { ranges, singles }
      await this.#ask(asked)
      localAddresses.forget(given)
      const placements = await this.#listen.place(servicePorts)
      this.#lost = this.#lostOf(placements, had)
      if (this.#lost.length === 0) return placements
      // Nobody has noticed yet. A listener that closes for it would cost its clients more.
      this.#damage ||= (await this.#deps.hostAddresses.missing()).join(', ')
      await this.#ask(asked)
      localAddresses.forget(this.#lost)
      const repaired = await this.#listen.place(servicePorts)
      this.#lost = this.#lostOf(repaired, had)
      return repaired
    })
  }

  steer(): Promise<void> {
    return this.#turns.take(async () => {
      const singles = this.#wanted.addresses
      if (singles !== this.#asked.singles) await this.#ask({ ...this.#asked, singles })
      const problems = this.problems()
      if (problems.length > 0) this.#retry.later(problems)
      this.#endWatch ??= this.#deps.hostAddresses.watch(what => {
        this.#damage = what
        // A sync may have come before, and have found them gone.
        this.#deps.localAddresses.forget('all')
        this.#deps.resync()
      })
    })
  }

  problems(): readonly Problem[] {
    const { addresses, refused } = this.#wanted
    return [
      ...addressProblems(this.#errors, addresses),
      ...refusedProblems(refused),
      ...(this.#lost.length === 0 ? [] : [lostProblem(this.#lost)]),
    ]
  }

  /** Nothing but rules can keep clients in silence; but nothing is put back any more. */
  hold(): Promise<void> {
    this.#endWatch?.()
    return this.#retry.stop()
  }

  async close(): Promise<void> {
    await this.hold()
    return this.#turns.take(async () => {
      if (this.#isUsed && !this.#deps.keepRules) await this.#deps.hostAddresses.remove()
    })
  }

  /** What failed, or did before, is asked about anew: VIPs are never asked about earlier. */
  async #ask(asked: Asked): Promise<void> {
    const { hostAddresses, localAddresses, repaired } = this.#deps
    const [errors, damage] = [this.#errors, this.#damage]
    // What is found meanwhile is left for the next time.
    this.#damage = ''
    this.#errors = await hostAddresses.sync([
      ...asked.ranges,
      ...Array.from(asked.singles, asCidr),
    ])
    this.#asked = asked
    localAddresses.forget(differences(errors, this.#errors).map(asAddress))
    if (damage === '') return
    // What could not be set anyway, like a range of IPv6, was not taken away.
    const failed = [...this.#errors].find(([cidr]) => !errors.has(cidr))
    repaired(damage, failed === undefined ? '' : failed.join(': '))
  }

  /** Those that were asked for without an error. */
  #lostOf(placements: readonly Placement[], ranges: readonly Cidr[]): readonly string[] {
    const isAsked = (address: string): boolean =>
      ranges.some(range => cidrContains(range, address)) ||
      (this.#asked.singles.has(address) && !this.#errors.has(asCidr(address)))
    const foreign = placements
      .flatMap(({ vips }) => vips.filter(({ capture }) => capture === 'not captured'))
      .map(({ vip }) => vip.address)
    return [...new Set(foreign)].filter(isAsked)
  }
}

const noProxyPorts = {
  portFor: async () => undefined,
  holds: () => false,
  release: () => {},
  losses: 0,
}

const asAddress = (cidr: string): string => cidr.slice(0, cidr.lastIndexOf('/'))

/** What only one of them has. */
const differences = (
  a: ReadonlyMap<string, unknown>,
  b: ReadonlyMap<string, unknown>,
): readonly string[] => [
  ...[...a.keys()].filter(key => !b.has(key)),
  ...[...b.keys()].filter(key => !a.has(key)),
]

/**
 * What a socket can't do for clients of such a VIP, where packet filters can; '' when it is
 * nothing. Who must not be answered is refused or reset: the kernel has done the handshake
 * before Usher is asked.
 */
const localLimits = (servicePort: ServicePort, kind: Vip['kind']): string => {
  const { internal, external, protocol, sourceRanges } = servicePort
  const group = vipGroups(servicePort)[kind]
  const target = group === 'internal' ? internal : external
  if (target.verdict === 'drop') {
    return 'no endpoint on this node, and the policy is Local: clients are refused, because dropping them needs kernel rules'
  }
  if (group === 'load-balancer' && sourceRanges !== undefined && protocol === 'TCP') {
    return 'clients outside of loadBalancerSourceRanges are reset once connected, because dropping them needs kernel rules'
  }
  return ''
}

/** So many single IPv6 addresses are felt: 0.1 ms at the start of each IPv6 connection. */
const manyAddresses = 500

/**
 * Why a VIP is not an address of this host, for its placement. `error` is that of
 * HostAddresses; undefined when it made the address the host's own, as far as is known.
 */
const heldProblem = (error: string | undefined): string => {
  if (error === undefined) return ''
  const advice = permissionAdvice(error)
  return `it can't be made one: ${error}${advice && `; ${advice}`}`
}

/** VIPs that must not be taken, each with why, but for what this host has anyway. */
const refusedProblems = (refused: ReadonlyMap<string, string>): readonly Problem[] =>
  [...refused]
    .filter(([address]) => !isOwnAddress(address))
    .map(([address, why]) => problem(address, `this VIP is not taken: ${why}`))

/** What is wrong; of single VIPs that it is, for their placements say the rest. */
const addressProblems = (
  errors: ReadonlyMap<string, string>,
  wanted: ReadonlySet<string>,
): readonly Problem[] => {
  const problems: Problem[] = []
  const missing = [...errors].filter(([cidr]) => isVip(cidr, wanted))
  const [first] = missing
  if (first !== undefined)
    problems.push(
      problem(
        '',
        `${missing.length} of ${wanted.size} VIPs can't be made addresses of this host, ${first.join(': ')}`,
      ),
    )
  for (const [cidr, error] of errors) {
    if (isVip(cidr, wanted)) continue
    const isOne = isSingle(cidr)
    // Of IPv6 ranges nothing else is expected, and every address is had for itself.
    if (!isOne && cidr.includes(':')) continue
    const what = isOne
      ? "can't be given back"
      : "can't be made this host's as a whole, only address by address"
    problems.push(problem(cidr, `${what}: ${error}`))
  }
  const six = [...wanted].filter(address => address.includes(':')).length
  if (six >= manyAddresses) problems.push(tooManyAddresses(six))
  return problems
}

/** Of VIPs that were added to this host, which is said to have them, and has not. */
const lostProblem = (lost: readonly string[]): Problem =>
  problem(
    lost[0] ?? '',
    `${lost.length} of the VIPs that were added to this host are missing, this one among them: another program removes them`,
  )

const problem = (field: string, message: string): Problem => ({
  object: 'capture local',
  field,
  message,
})

const isVip = (cidr: string, wanted: ReadonlySet<string>): boolean =>
  isSingle(cidr) && wanted.has(cidr.slice(0, cidr.indexOf('/')))

const tooManyAddresses = (count: number): Problem =>
  problem(
    'IPv6',
    `${count} addresses on the loopback interface make the start of each IPv6 connection of this host slower, by about ${((count * 0.25) / 1000).toFixed(1)} ms; with net.ipv6.ip_nonlocal_bind=1 before Usher starts they would be routes, which cost nothing`,
  )

type AddressLists = readonly (readonly string[])[]

/**
 * The single addresses that the VIPs of ServicePorts need, beside the ranges that are the
 * host's anyway.
 */
class WantedAddresses {
  #lists = new KeyedList<ServicePort, readonly string[]>(listenerId)
  #before: AddressLists = []
  #ranges = ''
  #addresses: ReadonlySet<string> = new Set()
  #refused: ReadonlyMap<string, string> = new Map()

  /** As of the last `take`. The same object while nothing changed. */
  get addresses(): ReadonlySet<string> {
    return this.#addresses
  }

  /** Those that must not be taken, each with why: they would be out of reach from here. */
  get refused(): ReadonlyMap<string, string> {
    return this.#refused
  }

  async take(
    servicePorts: readonly ServicePort[],
    ranges: readonly Cidr[],
    elsewhere: ReadonlyMap<string, string>,
  ): Promise<ReadonlySet<string>> {
    const text = ranges.map(range => range.text).join()
    const all = text !== this.#ranges
    const lists = await this.#lists.update(
      servicePorts,
      (servicePort, before) => {
        const now = addressesOf(servicePort, ranges)
        return before && isDeepStrictEqual(before, now) ? before : now
      },
      { all },
    )
    const { before, after } = listDiff(this.#before, lists)
    this.#before = lists
    this.#ranges = text
    const refused = await refusedAddresses(servicePorts, elsewhere)
    const isSame = isDeepStrictEqual(refused, this.#refused)
    if (before.length > 0 || after.length > 0 || !isSame)
      this.#addresses = new Set(lists.flat().filter(address => !refused.has(address)))
    this.#refused = refused
    return this.#addresses
  }
}

const addressesOf = ({ vips }: ServicePort, ranges: readonly Cidr[]): readonly string[] =>
  vips
    .map(({ address }) => address)
    .filter(
      address =>
        !isWildcard(address) &&
        !isLoopback(address) &&
        !ranges.some(range => cidrContains(range, address)),
    )

/**
 * Which external and load-balancer IPs are `elsewhere`, or the address of some endpoint: a pod's, or
 * that of a node with a pod of its network. Made this host's own, such an address could be
 * reached from here no more, by no client and at no port. A ClusterIP is no host's.
 */
const refusedAddresses = async (
  servicePorts: readonly ServicePort[],
  elsewhere: ReadonlyMap<string, string>,
): Promise<ReadonlyMap<string, string>> => {
  const external = new Set<string>()
  const internal = new Set<string>()
  await forEachYielding(servicePorts, ({ vips }) => {
    for (const { kind, address } of vips)
      if (kind === 'ClusterIP') internal.add(address)
      else if (kind === 'ExternalIP' || kind === 'LoadBalancerIP') external.add(address)
  })
  const found = new Map<string, string>()
  const refuse = (address: string, what: string) => {
    if (!external.has(address) || internal.has(address)) return
    const reason = `it is ${what}, which would be out of reach; give the Service another`
    found.set(address, reason)
  }
  // Most clusters have none, and then endpoints, which are many, are not looked at.
  if (external.size === 0) return found
  await forEachYielding(servicePorts, ({ endpoints }) => {
    for (const { address } of endpoints) refuse(address, 'the address of an endpoint')
  })
  for (const [address, what] of elsewhere) refuse(address, what)
  return found
}
