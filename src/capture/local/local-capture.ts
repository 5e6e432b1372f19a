import type { HostAddresses } from '../../kernel/host-addresses/host-addresses.ts'
import type { Problem, ServicePort, Vip } from '../../model/snapshot.ts'
import { type Cidr, cidrContains, parseCidr } from '../../util/cidr.ts'
import type { IpFamily } from '../../util/ip.ts'
import { Turns } from '../../util/turns.ts'
import { UntilDone, type UntilDoneDeps } from '../../kernel/keeper/until-done.ts'
import type { Capture, Placement } from '../capture.ts'
import { listenCapture } from '../listen.ts'
import { type LocalAddresses, nodeAddresses } from '../local-addresses.ts'
import {
  addressProblems,
  lostProblem,
  refusedProblems,
  whyNotHeld,
} from './local-problems.ts'
import { WantedAddresses } from './wanted-addresses.ts'
import { vipGroups } from '../vip-group.ts'

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

/**
 * Without rules of the kernel's: VIPs become addresses of this host, and the relay listens
 * on them. Ranges of ClusterIPs become so as a whole where that is possible.
 */
export const localCapture = (deps: LocalCaptureDeps): Capture => new LocalCapture(deps)

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

class LocalCapture implements Capture {
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
    this.#listen = listenCapture({
      mode: 'local',
      proxyAddress: () => ({ reason: 'local has no proxy ports' }),
      proxyPortRange: undefined,
      proxyPorts: noProxyPorts,
      localAddresses,
      nodePortCidrs: family => nodePortCidrs?.(family) ?? [everything[family]],
      ofInterfaces: family => nodeAddresses(family, this.#asked.singles),
      advice: address =>
        this.#wanted.refused.get(address) ??
        whyNotHeld(this.#errors.get(asCidr(address))),
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

const asCidr = (address: string): string =>
  address.includes(':') ? `${address}/128` : `${address}/32`

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
    return 'no endpoint on this node, and the policy is Local: clients are refused, as silence needs rules of the kernel'
  }
  if (group === 'load-balancer' && sourceRanges !== undefined && protocol === 'TCP') {
    return 'clients outside of loadBalancerSourceRanges are reset once connected, as silence needs rules of the kernel'
  }
  return ''
}
